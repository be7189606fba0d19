/* The core keeps each frame for a group of which it knows few members for five seconds, in 30 kB, and takes those whose
 * time is over away every 30 s. Whoever looks for many addresses on a network, or sends to ever new groups (any program on
 * the router may), would have hundreds of megabytes kept. So it is done more often here. The core calls its function by way
 * of its procedure linkage table, where a program comes before its libraries; so the object is known from the first call.
 *
 * It keeps what it knows of a network's members, and the groups of hosts behind a bridge, for good: nobody calls its
 * function that would remove those that are no peers any more, and groups that nobody has asked for in 20 minutes. Here
 * that is done each time when it asks a controller for the network's configuration, once a minute. */
#include "expiry.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static _Atomic(void *) multicaster;
static void (*core_clean)(void *, int64_t);
static void (*core_network_clean)(void *);
static void (*core_request)(void *, void *);

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_originals(void) {
	void *clean = dlsym(RTLD_NEXT, CORE_CLEAN), *network_clean = dlsym(RTLD_NEXT, CORE_NETWORK_CLEAN);
	void *request = dlsym(RTLD_NEXT, CORE_REQUEST);
	memcpy(&core_clean, &clean, sizeof clean);
	memcpy(&core_network_clean, &network_clean, sizeof network_clean);
	memcpy(&core_request, &request, sizeof request);
}

bool expiry_works(void) { return core_clean && core_network_clean && core_request; }

void expiry_clean(void *own, int64_t now) {
	void *none = NULL;
	atomic_compare_exchange_strong(&multicaster, &none, own);
	core_clean(own, now);
}

void expiry_look(int64_t now) {
	void *own = atomic_load(&multicaster);
	if (own) expiry_clean(own, now);
}

void expiry_request(void *network, void *thread) {
	core_network_clean(network);
	core_request(network, thread);
}
