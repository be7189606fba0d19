/* The core keeps each frame for a group of which it knows few members for five seconds, in 30 kB, and takes those whose
 * time is over away every 30 s. Whoever looks for many addresses on a network, or sends to ever new groups (any program on
 * the router may), would have hundreds of megabytes kept. So it is done more often here. The core calls its function by way
 * of its procedure linkage table, where a program comes before its libraries; so the object is known from the first call.
 */
#include "multicast.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static _Atomic(void *) multicaster;
static void (*core_clean)(void *, int64_t);

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_original(void) {
	void *found = dlsym(RTLD_NEXT, CORE_CLEAN);
	memcpy(&core_clean, &found, sizeof found);
}

void multicast_clean(void *own, int64_t now) {
	void *none = NULL;
	atomic_compare_exchange_strong(&multicaster, &none, own);
	if (core_clean) core_clean(own, now);
}

void multicast_look(int64_t now) {
	void *own = atomic_load(&multicaster);
	if (own) multicast_clean(own, now);
}
