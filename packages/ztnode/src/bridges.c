/* The core keeps for good behind which other bridge of a network each MAC address is: 67 million of them, so any host of a
 * LAN there can use up this router's memory with made-up addresses. A frame for an address that it does not know goes to
 * all bridges, and so arrives too. So it learns LEARNED_BURST at once here, then one in a second, and LEARNED_MOST in all.
 * What it has learned once is known here as long, so that it follows a host that moves.
 *
 * The core calls its function by way of its procedure linkage table, where a program comes before its libraries. */
#include "bridges.h"

#include "bucket.h"
#include "util.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#define LEARNED_PER_S 1.0
#define LEARNED_BURST 16384.0
#define LEARNED_MOST 98304
#define PLACES 131072 /* a power of two, more than LEARNED_MOST */

static void (*core_learn)(void *, const uint64_t *, const uint64_t *);
static uint64_t learned[PLACES]; /* 0: free; 1 MB that is in use as far as it was written */
static unsigned int learned_count;
static uint64_t secret[2]; /* so that nobody can choose addresses with the same place */
static struct bucket bucket = {LEARNED_PER_S, LEARNED_BURST, LEARNED_BURST};
static int64_t filled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_original(void) {
	void *found = dlsym(RTLD_NEXT, CORE_LEARN);
	memcpy(&core_learn, &found, sizeof found);
	if (getrandom(secret, sizeof secret, 0) != sizeof secret) core_learn = NULL;
}

bool bridges_works(void) { return core_learn; }

/* An address of a network, by the network's object: one that comes after it in its place has the same addresses. */
static uint64_t key_of(const void *network, uint64_t mac) { return (uint64_t)(uintptr_t)network << 44 ^ mac ^ 1ULL << 63; }

static size_t place_of(uint64_t key) {
	uint64_t mixed = (key ^ secret[0]) * (secret[1] | 1);
	mixed = (mixed ^ mixed >> 32) * (secret[0] | 1);
	return (size_t)(mixed >> 40) % PLACES;
}

static bool may_learn(const void *network, uint64_t mac, int64_t now) {
	uint64_t key = key_of(network, mac);
	size_t place = place_of(key);
	while (learned[place] && learned[place] != key) place = (place + 1) % PLACES;
	if (learned[place]) return true;
	bucket_fill(&bucket, (double)(now - filled) / 1000);
	filled = now;
	if (learned_count >= LEARNED_MOST || !bucket_take(&bucket)) return false;
	learned[place] = key;
	learned_count++;
	return true;
}

void bridges_learn(void *network, const uint64_t *mac, const uint64_t *bridge) {
	pthread_mutex_lock(&lock);
	bool may = may_learn(network, *mac, clock_ms());
	pthread_mutex_unlock(&lock);
	if (may) core_learn(network, mac, bridge);
}
