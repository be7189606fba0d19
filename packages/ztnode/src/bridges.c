/* The core keeps for good behind which other bridge of a network each MAC address is: 67 million of them, so any host of a
 * LAN there can use up this router's memory with made-up addresses. A frame for an address that it does not know goes to
 * all bridges, and so arrives too. So it learns LEARNED_BURST at once here, and then one in a second. One that has moved
 * behind another bridge is learned without that, unless it is forgotten here for others with the same hash.
 *
 * The core calls its function by way of its procedure linkage table, where a program comes before its libraries. */
#include "bridges.h"

#include "bucket.h"
#include "util.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define KNOWN 16384 /* a power of two */
#define LEARNED_PER_S 1.0
#define LEARNED_BURST 16384.0
#define AGAIN_MS 60000 /* a network that was left and joined again has forgotten all, perhaps at the same place */

static void (*core_learn)(void *, const uint64_t *, const uint64_t *);
static struct known {
	const void *network;
	uint64_t mac, bridge;
	int64_t learned;
} known[KNOWN];
static struct bucket bucket = {LEARNED_PER_S, LEARNED_BURST, LEARNED_BURST};
static int64_t filled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_original(void) {
	void *found = dlsym(RTLD_NEXT, CORE_LEARN);
	memcpy(&core_learn, &found, sizeof found);
}

bool bridges_works(void) { return core_learn; }

static bool may_learn(const void *network, uint64_t mac, uint64_t bridge, int64_t now) {
	struct known *entry = &known[(mac * 0x9e3779b97f4a7c15ULL >> 40) % KNOWN];
	bool same = entry->learned && entry->network == network && entry->mac == mac;
	if (same && entry->bridge == bridge && now - entry->learned < AGAIN_MS) return false; /* it has */
	bucket_fill(&bucket, (double)(now - filled) / 1000);
	filled = now;
	if (!same && !bucket_take(&bucket)) return false;
	*entry = (struct known){network, mac, bridge, now};
	return true;
}

void bridges_learn(void *network, const uint64_t *mac, const uint64_t *bridge) {
	pthread_mutex_lock(&lock);
	bool may = may_learn(network, *mac, *bridge, clock_ms());
	pthread_mutex_unlock(&lock);
	if (may) core_learn(network, mac, bridge);
}
