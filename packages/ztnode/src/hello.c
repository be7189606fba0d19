#include "hello.h"

#include "core.h"
#include "identity.h"
#include "util.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE = 13, MAC = 19, VERB = 27, EPHEMERAL = 32 };
#define VERB_HELLO 1
#define PER_SECOND 100 /* agreements on a key, some 0.1 ms each: a flood of them must not take the core's time */

/* What has been opened in this second of the core's clock: strangers have a share of their own. */
struct share {
	int64_t second;
	unsigned int opened;
};

struct hello {
	unsigned char private_key[64];
	uint64_t self;
	struct share known, strangers;
	pthread_mutex_t lock; /* of what follows */
	struct hello_sender senders[HELLO_SENDERS];
	size_t sender_count;
};

struct hello *hello_new(const char *secret_identity) {
	uint64_t self;
	if (strlen(secret_identity) < 10) return NULL;
	struct hello *hello = calloc(1, sizeof *hello);
	char address[11];
	memcpy(address, secret_identity, 10);
	address[10] = 0;
	if (!hello || !parse_hex(address, 10, &self) || !identity_private_key(secret_identity, hello->private_key)) {
		hello_free(hello);
		return NULL;
	}
	hello->self = self;
	pthread_mutex_init(&hello->lock, NULL);
	return hello;
}

void hello_free(struct hello *hello) {
	if (hello) explicit_bzero(hello->private_key, sizeof hello->private_key);
	free(hello);
}

/* AES-256 in counter mode over `data` in place. */
static void decrypt(const unsigned char key[32], const unsigned char nonce[12], unsigned char *data, size_t length) {
	_Alignas(16) unsigned char cipher[CORE_AES_SIZE];
	unsigned char counter[16] = {0}, stream[16];
	memcpy(counter, nonce, 12);
	core_aes_init(cipher, key);
	for (size_t i = 0; i < length; i++) {
		if (i % 16 == 0) {
			core_aes_encrypt(cipher, counter, stream);
			for (int digit = 15; digit >= 12 && ++counter[digit] == 0; digit--) continue;
		}
		data[i] ^= stream[i % 16];
	}
	explicit_bzero(cipher, sizeof cipher);
	explicit_bzero(stream, sizeof stream);
}

/* The sender is not authenticated, so the list is short and the longest silent one makes room. */
static void remember_unread(struct hello *hello, uint64_t node, int64_t now) {
	pthread_mutex_lock(&hello->lock);
	struct hello_sender *entry = hello->senders, *oldest = entry, *end = entry + hello->sender_count;
	for (; entry < end && entry->node != node; entry++)
		if (entry->last < oldest->last) oldest = entry;
	if (entry == end && hello->sender_count < HELLO_SENDERS) hello->sender_count++;
	else if (entry == end) entry = oldest;
	if (entry->node != node) *entry = (struct hello_sender){.node = node};
	entry->count++;
	entry->last = now;
	pthread_mutex_unlock(&hello->lock);
}

static bool take(struct share *share, int64_t second) {
	if (second != share->second) *share = (struct share){.second = second};
	return share->opened++ < PER_SECOND;
}

size_t hello_open(struct hello *hello, const unsigned char *packet, size_t length, bool known,
                  unsigned char plain[HELLO_MAX], int64_t now) {
	if (length > HELLO_MAX || length <= VERB + EPHEMERAL || number_at(packet + HELLO_DESTINATION, 5) != hello->self)
		return 0;
	if (!take(known ? &hello->known : &hello->strangers, now / 1000)) return 0;
	unsigned char public_key[64] = {0}, key[32];
	size_t rest = length - EPHEMERAL;
	memcpy(public_key, packet + rest, EPHEMERAL);
	core_agree(hello->private_key, public_key, key, sizeof key);
	memcpy(plain, packet, rest);
	decrypt(key, packet, plain + MAC, rest - MAC);
	explicit_bzero(key, sizeof key);
	if (plain[VERB] == VERB_HELLO) return rest;
	remember_unread(hello, number_at(packet + SOURCE, 5), now);
	return 0;
}

size_t hello_unread(struct hello *hello, struct hello_sender senders[HELLO_SENDERS]) {
	pthread_mutex_lock(&hello->lock);
	size_t count = hello->sender_count;
	memcpy(senders, hello->senders, count * sizeof *senders);
	pthread_mutex_unlock(&hello->lock);
	return count;
}
