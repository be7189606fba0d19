#include "networks.h"

#include "shortcut.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct networks {
	const struct network_host *host;
	/* Held over a whole join or leave, in which the core is called: callbacks never take it. */
	pthread_mutex_t changing;
	/* Of the list: callbacks read under it, and the core is never called under it. */
	pthread_rwlock_t lock;
	struct network *list[MAX_NETWORKS];
	size_t count;
};

struct networks *networks_new(const struct network_host *host) {
	struct networks *networks = calloc(1, sizeof *networks);
	if (!networks) return NULL;
	networks->host = host;
	pthread_mutex_init(&networks->changing, NULL);
	pthread_rwlock_init(&networks->lock, NULL);
	return networks;
}

void networks_free(struct networks *networks) {
	if (!networks) return;
	pthread_mutex_destroy(&networks->changing);
	pthread_rwlock_destroy(&networks->lock);
	free(networks);
}

/* Either lock is held. */
static struct network *find(struct networks *networks, uint64_t nwid) {
	for (size_t i = 0; i < networks->count; i++)
		if (network_id(networks->list[i]) == nwid) return networks->list[i];
	return NULL;
}

/* With the lock held. NULL for one that has been left. */
static struct network *joined(struct networks *networks, const void *which) {
	for (size_t i = 0; i < networks->count; i++)
		if (networks->list[i] == which) return networks->list[i];
	return NULL;
}

/* With `changing` held: out of the list, so that no callback finds it any more; then its thread and its TAP end. */
static void drop(struct networks *networks, struct network *network) {
	pthread_rwlock_wrlock(&networks->lock);
	for (size_t i = 0; i < networks->count; i++)
		if (networks->list[i] == network) networks->list[i] = networks->list[--networks->count];
	pthread_rwlock_unlock(&networks->lock);
	network_free(network);
}

/* With `changing` held. */
static bool join(struct networks *networks, uint64_t nwid) {
	if (find(networks, nwid)) return true;
	struct network *network = networks->count < MAX_NETWORKS ? network_new(networks->host, nwid) : NULL;
	if (!network) return false;
	pthread_rwlock_wrlock(&networks->lock);
	networks->list[networks->count++] = network;
	pthread_rwlock_unlock(&networks->lock);
	shortcut_change_begin();
	int result = ZT_Node_join(networks->host->core, nwid, network, NULL);
	shortcut_change_end();
	if (result == CORE_OK) return true;
	drop(networks, network);
	return false;
}

bool networks_join(struct networks *networks, uint64_t nwid) {
	pthread_mutex_lock(&networks->changing);
	bool good = join(networks, nwid);
	pthread_mutex_unlock(&networks->changing);
	return good;
}

bool networks_leave(struct networks *networks, uint64_t nwid) {
	pthread_mutex_lock(&networks->changing);
	struct network *network = find(networks, nwid);
	/* What the core would hand back is an address within its own object, which is gone when it returns; so nothing is
	 * asked for. Two leaves of one network at a time would have the second one use it after that, too. */
	if (network) {
		shortcut_change_begin();
		ZT_Node_leave(networks->host->core, nwid, NULL, NULL);
		shortcut_change_end();
		drop(networks, network);
		char path[4096];
		snprintf(path, sizeof path, "%s/networks.d/%016llx.conf", networks->host->home, (unsigned long long)nwid);
		/* The core has it deleted, too; but one that it has just got a configuration for may be written again. */
		unlink(path);
	}
	pthread_mutex_unlock(&networks->changing);
	return network != NULL;
}

void networks_device(struct networks *networks, uint64_t nwid, char name[IFNAMSIZ]) {
	pthread_rwlock_rdlock(&networks->lock);
	const struct network *network = find(networks, nwid);
	snprintf(name, IFNAMSIZ, "%s", network ? network_device(network) : "");
	pthread_rwlock_unlock(&networks->lock);
}

unsigned int networks_offloads(struct networks *networks, uint64_t nwid) {
	pthread_rwlock_rdlock(&networks->lock);
	const struct network *network = find(networks, nwid);
	unsigned int offloads = network ? network_offloads(network) : 0;
	pthread_rwlock_unlock(&networks->lock);
	return offloads;
}

void networks_look_at_groups(struct networks *networks) {
	pthread_mutex_lock(&networks->changing);
	for (size_t i = 0; i < networks->count; i++) network_look_at_groups(networks->list[i]);
	pthread_mutex_unlock(&networks->changing);
}

void networks_close(struct networks *networks) {
	pthread_mutex_lock(&networks->changing);
	while (networks->count) drop(networks, networks->list[networks->count - 1]);
	pthread_mutex_unlock(&networks->changing);
}

int networks_configure(struct networks *networks, const void *which, int operation, const struct core_network *config) {
	if (operation != CORE_NET_UP && operation != CORE_NET_UPDATE) return 0; /* whoever leaves closes the TAP */
	pthread_rwlock_rdlock(&networks->lock);
	struct network *network = joined(networks, which);
	bool good = !network || network_configure(network, config);
	pthread_rwlock_unlock(&networks->lock);
	return good ? 0 : -1;
}

void networks_deliver(struct networks *networks, const void *which, uint64_t source, uint64_t destination,
                      unsigned int type, const void *data, unsigned int length) {
	pthread_rwlock_rdlock(&networks->lock);
	struct network *network = joined(networks, which);
	if (network) network_deliver(network, source, destination, type, data, length);
	pthread_rwlock_unlock(&networks->lock);
}

void networks_deliver_frame(struct networks *networks, const void *which, const unsigned char *frame, size_t length) {
	pthread_rwlock_rdlock(&networks->lock);
	struct network *network = joined(networks, which);
	if (network) network_deliver_frame(network, frame, length);
	pthread_rwlock_unlock(&networks->lock);
}
