/* The core keeps each frame for a group of which it knows few members for five seconds, in 30 kB, and takes those whose
 * time is over away every 30 s. Whoever looks for many addresses on a network, or sends to ever new groups (any program on
 * the router may), would have hundreds of megabytes kept. So it is done more often here. The core calls its function by way
 * of its procedure linkage table, where a program comes before its libraries; so the object is known from the first call.
 *
 * It keeps what it knows of a network's members, and the groups of hosts behind a bridge, for good: nobody calls its
 * function that would remove those that are no peers any more, and groups that nobody has asked for in 20 minutes. Here
 * that is done each time when it asks a controller for the network's configuration, once a minute. But what it knows of a
 * member whose credentials were revoked is all that keeps him out until those are too old, two hours at most: so long after
 * a genuine revocation all are kept. */
#include "expiry.h"

#include "util.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define ACCEPTED_NEW 1 /* Membership::AddCredentialResult */
#define NETWORKS 64    /* as many as an instance joins */
/* NetworkConfig.hpp of the core: the largest difference of credentials that agree, and some more for clocks */
#define REVOKED_MS (2 * 3600 * 1000 + 300 * 1000)

static _Atomic(void *) multicaster;
static struct {
	const void *network;
	int64_t at;
} revoked[NETWORKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*core_clean)(void *, int64_t);
static void (*core_network_clean)(void *);
static void (*core_request)(void *, void *);
static int (*core_revoke)(void *, void *, const void *, const void *);

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_originals(void) {
	void *clean = dlsym(RTLD_NEXT, CORE_CLEAN), *network_clean = dlsym(RTLD_NEXT, CORE_NETWORK_CLEAN);
	void *request = dlsym(RTLD_NEXT, CORE_REQUEST), *revoke = dlsym(RTLD_NEXT, CORE_REVOKE);
	memcpy(&core_clean, &clean, sizeof clean);
	memcpy(&core_network_clean, &network_clean, sizeof network_clean);
	memcpy(&core_request, &request, sizeof request);
	memcpy(&core_revoke, &revoke, sizeof revoke);
}

bool expiry_works(void) { return core_clean && core_network_clean && core_request && core_revoke; }

void expiry_clean(void *own, int64_t now) {
	void *none = NULL;
	atomic_compare_exchange_strong(&multicaster, &none, own);
	core_clean(own, now);
}

void expiry_look(int64_t now) {
	void *own = atomic_load(&multicaster);
	if (own) expiry_clean(own, now);
}

/* A network's place, or that of the one whose last revocation is the oldest. */
static void remember(const void *network, int64_t now) {
	size_t oldest = 0, place = 0;
	while (place < NETWORKS && revoked[place].network != network) {
		if (revoked[place].at < revoked[oldest].at) oldest = place;
		place++;
	}
	if (place == NETWORKS) place = oldest;
	revoked[place].network = network, revoked[place].at = now;
}

static bool is_remembered(const void *network, int64_t now) {
	for (size_t i = 0; i < NETWORKS; i++)
		if (revoked[i].network == network && now - revoked[i].at < REVOKED_MS) return true;
	return false;
}

int expiry_revoke(void *network, void *thread, const void *from, const void *revocation) {
	int result = core_revoke(network, thread, from, revocation);
	pthread_mutex_lock(&lock);
	if (result == ACCEPTED_NEW) remember(network, clock_ms());
	pthread_mutex_unlock(&lock);
	return result;
}

void expiry_request(void *network, void *thread) {
	pthread_mutex_lock(&lock);
	bool keep = is_remembered(network, clock_ms());
	pthread_mutex_unlock(&lock);
	if (!keep) core_network_clean(network);
	core_request(network, thread);
}
