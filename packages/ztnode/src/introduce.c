/* A flaw of the core, met by standing in for one of its functions.
 *
 * Who relays between two peers tells each where the other is (RENDEZVOUS), so that both begin at once and their NATs let
 * the packets through. Core 1.8.4 encrypts both messages with the keys of one peer (Peer::introduce, fixed in later
 * versions: armor(other->_key, …, other->aesKeysIfSupported())), so only this one can read its own, and NATs stay closed.
 * The core calls the function through its linkage table, so the one here is taken: it introduces both ways, and of each
 * way the message that is right is read. The core calls it in the thread that receives alone, so the locks of both peers,
 * which it takes one after the other, cannot be taken crosswise. A packet that claims to be from the node that it is for
 * would have a peer introduced to itself, which takes one lock twice and so hangs: anybody can send one.
 */
#include "introduce.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

typedef void introduce_function(const void *peer, void *thread, int64_t now, const void *const *other);

static introduce_function *original;

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_original(void) {
	void *found = dlsym(RTLD_NEXT, INTRODUCE);
	memcpy(&original, &found, sizeof found);
}

void peer_introduce(const void *peer, void *thread, int64_t now, const void *const *other) {
	if (!original || peer == *other) return;
	original(peer, thread, now, other);
	original(*other, thread, now, &peer);
}
