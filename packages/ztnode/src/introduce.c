/* Flaws of the core, met by standing in for two of its functions.
 *
 * Who relays between two peers tells each where the other is (RENDEZVOUS), so that both begin at once and their NATs let
 * the packets through. Core 1.8.4 encrypts both messages with the keys of one peer (Peer::introduce, fixed in later
 * versions: armor(other->_key, …, other->aesKeysIfSupported())), so only this one can read its own, and NATs stay closed.
 * The core calls the function through its linkage table, so the one here is taken: it introduces both ways, and of each
 * way the message that is right is read. The core calls it in the thread that receives alone, so the locks of both peers,
 * which it takes one after the other, cannot be taken crosswise. A packet that claims to be from the node that it is for
 * would have a peer introduced to itself, which takes one lock twice and so hangs: anybody can send one.
 *
 * Which two it has introduced, the core keeps for four minutes, in a table that grows with every pair that it is sent a
 * packet of, and anybody can make up sources (Switch::_shouldUnite). Here the table has a size.
 */
#include "introduce.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PAUSE_MS 1000 /* between two introductions of the same two */

typedef void introduce_function(const void *peer, void *thread, int64_t now, const void *const *other);

static introduce_function *original;

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_original(void) {
	void *found = dlsym(RTLD_NEXT, INTRODUCE);
	memcpy(&original, &found, sizeof found);
}

/* Packets between two nodes without a path have the core introduce them once for each, and anybody can send such packets.
 * Pairs that share a slot share the pause. */
static bool too_soon(const void *one, const void *other, int64_t now) {
	static int64_t last[256];
	const void *low = one < other ? one : other, *high = one < other ? other : one;
	size_t slot = (((uintptr_t)low ^ (uintptr_t)high >> 3) * 0x9e3779b97f4a7c15ULL >> 40) % (sizeof last / sizeof *last);
	if (now - last[slot] < PAUSE_MS) return true;
	last[slot] = now;
	return false;
}

void peer_introduce(const void *peer, void *thread, int64_t now, const void *const *other) {
	if (!original || peer == *other || too_soon(peer, *other, now)) return;
	original(peer, thread, now, other);
	original(*other, thread, now, &peer);
}

/* -- whom it has introduced */

#define UNITED_MS 30000 /* as the core has it: between two introductions of the same two */
#define UNITED 4096

bool should_unite(void *own, int64_t now, const uint64_t *source, const uint64_t *destination) {
	static struct pair {
		uint64_t low, high;
		int64_t at;
	} united[UNITED];
	(void)own;
	uint64_t low = *source < *destination ? *source : *destination, high = *source ^ *destination ^ low;
	struct pair *pair = &united[((low ^ high << 24) * 0x9e3779b97f4a7c15ULL >> 40) % UNITED];
	if (pair->low == low && pair->high == high && now - pair->at < UNITED_MS) return false;
	*pair = (struct pair){low, high, now};
	return true;
}
