/* Packets that the core cannot use yet and decodes again: it decrypts them a second time and so loses them.
 *
 * A packet of a member whose credentials are still to come, or credentials whose signer is not known yet, is kept for
 * five seconds and tried every half second (Switch: the receive queue). The core of 1.8.4 has decrypted it in place by
 * then; the second time its MAC is wrong and it is gone, so that the first packets of a first contact on a controller's
 * network are lost (fixed in 1.8.9, commit 4389b9fef). Here the two functions of the core that are concerned are
 * replaced: what was decrypted and put back is remembered, and when exactly the same bytes are to be decrypted again
 * they are good as they are. Whoever has not seen the plain text cannot send such bytes.
 *
 * The queue has another flaw. A packet in it, such as one that came in fragments, is decoded under the lock of its entry,
 * and one that answers WHOIS has all of the queue decoded at once (Switch::doAnythingWaitingForPeer), which takes the same
 * lock again: the thread hangs, and the others after it. So this function does nothing while a packet of the queue is being
 * decoded, in whatever thread; what waits is tried again within half a second anyway (Switch::doTimerTasks).
 *
 * The core calls all three by way of its procedure linkage table, where a program comes before its libraries. */
#include "decode.h"

#include "armor.h"
#include "core.h"
#include "shortcut.h"
#include "util.h"
#include "verbs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 32      /* as many as the core's receive queue holds */
#define KEPT_MS 6000 /* it gives up after 5000 */
enum { ID_BYTES = 8, FLAGS = 18, MAC = 19, HEADER = 28, CIPHER_MASK = 0x38, UNSEALED = 0x10 };

struct kept {
	unsigned char *bytes;
	unsigned int length;
	int64_t until;
};
static struct kept kept[KEPT];
static atomic_uint kept_count; /* 0 nearly always: then nothing is looked up */
static unsigned int next_kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool closed;
static _Atomic uint64_t trusted[DECODE_TRUSTED]; /* 0: none */
static _Thread_local const void *decrypted;      /* the packet that tryDecode has decrypted, of the innermost call */
static _Thread_local const void *decoding;       /* the packet of that call */

static bool (*core_dearmor)(void *packet, const void *key, const void *aes);
static bool (*core_try)(void *packet, const void *runtime, void *thread, int32_t flow);
static void (*core_retry)(void *own, void *thread, const void *peer);

__attribute__((constructor)) static void decode_begin(void) {
	core_dearmor = (bool (*)(void *, const void *, const void *))dlsym(RTLD_NEXT, CORE_DEARMOR);
	core_try = (bool (*)(void *, const void *, void *, int32_t))dlsym(RTLD_NEXT, CORE_TRY_DECODE);
	core_retry = (void (*)(void *, void *, const void *))dlsym(RTLD_NEXT, CORE_RETRY);
}

void decode_close(void) { atomic_store(&closed, true); }

bool decode_closed(void) { return atomic_load_explicit(&closed, memory_order_relaxed); }

void decode_trust(const uint64_t *numbers, size_t count) {
	for (size_t i = 0; i < DECODE_TRUSTED; i++) atomic_store(&trusted[i], i < count ? numbers[i] : 0);
}

bool decode_works(void) { return core_dearmor && core_try && core_retry; }

static void drop(struct kept *entry) {
	free(entry->bytes);
	*entry = (struct kept){0};
	atomic_fetch_sub(&kept_count, 1);
}

static struct kept *find(const unsigned char *packet, unsigned int length) {
	int64_t now = clock_ms();
	for (struct kept *entry = kept; entry < kept + KEPT; entry++) {
		if (!entry->bytes) continue;
		if (entry->until < now) drop(entry);
		else if (memcmp(entry->bytes, packet, ID_BYTES) == 0 && entry->length == length &&
		         memcmp(entry->bytes, packet, length) == 0)
			return entry;
	}
	return NULL;
}

static bool known(const unsigned char *packet) {
	if (atomic_load_explicit(&kept_count, memory_order_relaxed) == 0) return false;
	unsigned int length = core_packet_length(packet);
	pthread_mutex_lock(&lock);
	bool found = length <= CORE_PACKET_MAX && find(packet, length);
	pthread_mutex_unlock(&lock);
	return found;
}

/* It is put back: keep its bytes as they are now. */
static void keep(const unsigned char *packet) {
	unsigned int length = core_packet_length(packet);
	if (length < HEADER || length > CORE_PACKET_MAX) return;
	pthread_mutex_lock(&lock);
	struct kept *entry = find(packet, length);
	if (!entry) {
		entry = &kept[next_kept++ % KEPT];
		if (entry->bytes) drop(entry);
		unsigned char *bytes = malloc(length);
		if (bytes) {
			memcpy(bytes, packet, length);
			*entry = (struct kept){bytes, length, clock_ms() + KEPT_MS};
			atomic_fetch_add(&kept_count, 1);
		}
	}
	pthread_mutex_unlock(&lock);
}

static bool may_pass(void *packet, bool sealed) {
	unsigned int length = core_packet_length(packet);
	if (length > CORE_PACKET_MAX) return false;
	if (verbs_compressed(packet, length)) {
		if (!core_uncompress(packet)) return false;
		length = core_packet_length(packet);
	}
	enum verbs what = verbs_of(packet, length, decode_closed());
	return what == VERBS_PASS || (what != VERBS_REFUSED && verbs_in_budget(packet, length, what, sealed, clock_ms()));
}

/* The core drops a packet whose MAC is wrong without a trace: so it does with one that it must not carry out. */
bool decode_may_pass(void *packet) { return may_pass(packet, true); }

static bool is_trusted(uint64_t number) {
	for (size_t i = 0; number && i < DECODE_TRUSTED; i++)
		if (atomic_load_explicit(&trusted[i], memory_order_relaxed) == number) return true;
	return false;
}

/* By a trusted path packets come without a MAC, with its number in that place. The core takes one for authentic that has
 * the number of any prefix of `physical` that it comes from (Topology::shouldInboundPathBeTrusted), also of one that has an
 * MTU alone: its number is 0, and everybody could be any node. A number that nobody has configured costs its sender's name
 * nothing of what verbs.h counts. */
static bool may_come_unsealed(void *packet) {
	const unsigned char *bytes = packet;
	unsigned int length = core_packet_length(packet);
	if (length < HEADER || (bytes[FLAGS] & CIPHER_MASK) != UNSEALED) return true;
	return is_trusted(number_at(bytes + MAC, 8)) && may_pass(packet, false);
}

bool decode_genuine(struct core_packet *packet, const unsigned char key[32]) { return core_dearmor(packet, key, NULL); }

bool decode_dearmor(void *packet, const void *key, const void *aes) {
	bool good = known(packet);
	if (!good && !armor_open(packet, aes, &good)) good = core_dearmor(packet, key, aes);
	good = good && decode_may_pass(packet);
	if (good) {
		decrypted = packet;
		shortcut_opened(packet, aes);
	}
	return good;
}

bool decode_try(void *packet, const void *runtime, void *thread, int32_t flow) {
	if (!may_come_unsealed(packet)) return true;       /* it is done with */
	const void *outer = decrypted, *around = decoding; /* a packet that lets others be decoded does so from within */
	decrypted = NULL;
	decoding = packet;
	bool done = core_try(packet, runtime, thread, flow);
	if (!done && decrypted == packet) keep(packet);
	decrypted = outer;
	decoding = around;
	return done;
}

/* -- what waits */

/* A packet of the receive queue is decoded under the lock of its entry; any other is a variable of its caller. */
static bool is_queued(const void *packet) {
	pthread_attr_t attributes;
	void *stack = NULL;
	size_t size = 0;
	if (pthread_getattr_np(pthread_self(), &attributes) != 0) return true;
	bool found = pthread_attr_getstack(&attributes, &stack, &size) == 0;
	pthread_attr_destroy(&attributes);
	return !found || (uintptr_t)packet - (uintptr_t)stack >= size;
}

void decode_retry(void *own, void *thread, const void *peer) {
	if (!decoding || !is_queued(decoding)) core_retry(own, thread, peer);
}
