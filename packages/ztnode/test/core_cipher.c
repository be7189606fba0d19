/* Packets that the core seals are opened, and those sealed here are the core's to the last byte, with each version that
 * this CPU has; what the core refuses is refused, and left as the core leaves it. */
#include "armor.h"
#include "asked.h"
#include "core.h"
#include "decode.h"
#include "siv.h"
#include "util.h"
#include "verbs.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3000, FLAGS = 18, CIPHER = 0x38, AES = 0x18, SHORTEST = 28 };
void core_init(struct siv_key *key, const unsigned char bytes[32]) __asm__("_ZN8ZeroTier3AES12p_init_aesniEPKh");
bool core_compress(struct core_packet *packet) __asm__("_ZN8ZeroTier6Packet8compressEv");
static void (*core_seal)(struct core_packet *, const void *, bool, const struct siv_key *);
static bool (*core_open)(struct core_packet *, const void *, const struct siv_key *);

static void fill(void *bytes, size_t length) {
	for (size_t i = 0; i < length; i++) ((unsigned char *)bytes)[i] = (unsigned char)(rand() >> 7);
}

/* The two agree, whatever the packet is; returns whether it was good. What it asks is looked at behind the MAC (verbs.h),
 * and what has a budget may pass the first time and not the second. */
static bool open_both(const struct core_packet *packet, const unsigned char key[32], const struct siv_key *keys) {
	static struct core_packet own, cores;
	own = cores = *packet;
	bool good = core_open(&cores, key, keys);
	if (good && verbs_of(cores.bytes, cores.length, false) > VERBS_PASS) return true;
	bool passes = good && decode_may_pass(&cores);
	assert(decode_dearmor(&own, key, keys) == passes && memcmp(&own, &cores, sizeof own) == 0);
	return good;
}

static void check_packet(const struct core_packet *packet, const unsigned char key[32], const struct siv_key *keys,
                         bool encrypt) {
	static struct core_packet own, cores, changed;
	own = cores = *packet;
	core_seal(&cores, key, encrypt, keys);
	armor_seal(&own, key, encrypt, keys);
	assert(memcmp(&own, &cores, sizeof own) == 0);
	assert(open_both(&own, key, keys));
	changed = own;
	changed.bytes[FLAGS] |= (unsigned char)(rand() % 8); /* hops are not authenticated */
	assert(open_both(&changed, key, keys));
	changed = own;
	changed.bytes[(unsigned int)rand() % changed.length] ^= (unsigned char)(1 << rand() % 8);
	open_both(&changed, key, keys);
	if (keys && encrypt) { /* said to be of the other suite, and without keys */
		open_both(&own, key, NULL);
		changed = own;
		changed.bytes[FLAGS] = (unsigned char)((changed.bytes[FLAGS] & ~CIPHER) | (rand() % 8) << 3);
		assert(open_both(&changed, key, keys) == ((changed.bytes[FLAGS] & CIPHER) == AES));
	}
	changed = own;
	changed.length -= (unsigned int)rand() % (changed.length - SHORTEST + 1);
	assert(open_both(&changed, key, keys) == (changed.length == own.length));
}

/* Answers name a question by the number that it has on the wire, with AES another than before. */
static void check_question(const unsigned char key[32], const struct siv_key *keys, bool compressed) {
	enum { DESTINATION = 8, NUMBER = 4, VERB = 27, GATHER = 0x0d, LENGTH = 300 };
	static struct core_packet packet;
	memset(&packet, 0, sizeof packet);
	fill(packet.bytes, FLAGS);
	packet.bytes[VERB] = GATHER;
	fill(packet.bytes + VERB + 1, 8);
	packet.length = LENGTH;
	uint64_t node = number_at(packet.bytes + DESTINATION, 5), network = number_at(packet.bytes + VERB + 1, 8);
	uint32_t before = (uint32_t)number_at(packet.bytes, NUMBER);
	if (compressed) assert(core_compress(&packet) && packet.length < LENGTH);
	armor_seal(&packet, key, true, keys);
	uint32_t number = (uint32_t)number_at(packet.bytes, NUMBER);
	assert((number == before) == !keys);
	assert(asked_of(node, GATHER, number, network) && asked_of(node, GATHER, before, network) == !keys);
}

int main(void) {
	static struct core_packet packet;
	struct siv_key keys[2];
	unsigned char key[32], secret[32];
	assert(armor_works() && decode_works());
	core_seal = (void (*)(struct core_packet *, const void *, bool, const struct siv_key *))dlsym(RTLD_NEXT, CORE_ARMOR);
	core_open = (bool (*)(struct core_packet *, const void *, const struct siv_key *))dlsym(RTLD_NEXT, CORE_DEARMOR);
	assert(dlsym(RTLD_DEFAULT, CORE_ARMOR) == (void *)armor_seal &&
	       dlsym(RTLD_DEFAULT, CORE_DEARMOR) == (void *)decode_dearmor);
	assert((void *)core_seal != (void *)armor_seal && (void *)core_open != (void *)decode_dearmor);
	if (!siv_choose("sse")) {
		puts("no AES instructions: the core works alone");
		return strcmp(armor_name(), "core") != 0;
	}
	srand(1);
	static const char *const names[] = {"sse", "vaes"};
	for (int version = 0; version < 2; version++) {
		if (!siv_choose(names[version])) continue;
		assert(armor_select(names[version]) && strcmp(armor_name(), names[version]) == 0);
		for (int round = 0; round < ROUNDS; round++) {
			fill(secret, sizeof secret);
			core_init(&keys[0], secret);
			fill(secret, sizeof secret);
			core_init(&keys[1], secret);
			fill(key, sizeof key);
			packet.length = SHORTEST + (unsigned int)(round < 500 ? round : rand() % (CORE_PACKET_MAX - SHORTEST + 1));
			fill(packet.bytes, packet.length);
			packet.bytes[FLAGS] &= 0xc0;
			check_packet(&packet, key, keys, true);
			if (round % 8 == 0) check_packet(&packet, key, NULL, round % 16 == 0); /* the old suite */
			check_question(key, round % 4 ? keys : NULL, round % 2);
		}
		puts(names[version]);
	}
	return 0;
}
