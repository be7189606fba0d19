/* A flaw of the core, met by standing in for one of its functions.
 *
 * Topology::getUpstreamPeer compares roots by a latency for which 0 ms, as on a fast network, means "unknown", and it
 * counts one without any path as such, too; so the very peer that has lost its path may be chosen to relay to itself, and
 * nothing arrives. The core calls the function through its linkage table, so the one here is taken.
 */
#include "relay.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UPSTREAM "_ZN8ZeroTier8Topology15getUpstreamPeerEv"

struct shared_pointer;
typedef struct shared_pointer *upstream_function(struct shared_pointer *result, void *topology);

struct shared_pointer *relay_upstream(struct shared_pointer *result, void *topology) __asm__(UPSTREAM);
struct shared_pointer *relay_get_peer(struct shared_pointer *result, void *topology, void *thread,
                                      const uint64_t *address) __asm__("_ZN8ZeroTier8Topology7getPeerEPvRKNS_7AddressE");

static _Atomic uint64_t chosen; /* node address, 0: none */
static upstream_function *original;

void relay_choose(const struct core_peers *peers) {
	uint64_t best = 0;
	int latency = 0;
	for (unsigned long i = 0; i < peers->count; i++) {
		const struct core_peer *peer = &peers->peers[i];
		int here = peer->latency < 0 ? 0xffff : peer->latency;
		if (!core_preferred(peer) || peer->role == CORE_ROLE_LEAF || (best && here >= latency)) continue;
		best = peer->address;
		latency = here;
	}
	atomic_store_explicit(&chosen, best, memory_order_relaxed);
}

struct shared_pointer *relay_upstream(struct shared_pointer *result, void *topology) {
	uint64_t node = atomic_load_explicit(&chosen, memory_order_relaxed);
	if (node) {
		relay_get_peer(result, topology, NULL, &node);
		void *object;
		memcpy(&object, result, sizeof object);
		if (object) return result;
	}
	return original(result, topology);
}

/* Before main, because the core may ask from any thread. */
__attribute__((constructor)) static void find_original(void) {
	void *found = dlsym(RTLD_NEXT, UPSTREAM);
	memcpy(&original, &found, sizeof found);
}
