#include "contact.h"

#include "recovery.h"
#include "util.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 250        /* between two looks, and */
#define LOOK_CROWD_MS 1000 /* where there are more peers than */
#define CROWD 64
#define LOOK_BUSY_MS 50    /* between two looks while a question is open or a hint was given */
#define HINTS 16

/* -- what is known of the core's objects (1.8.4, this very library, which is pinned by hash)
 *
 * Read in its sources and in the library's code; check_layout sees at every start that it is so.
 *   Node: RuntimeEnvironment at NODE_ENVIRONMENT, a pointer to it at NODE_ENVIRONMENT_POINTER
 *   RuntimeEnvironment: first the Node, then …, the Topology, …, the Identity, whose first word is the node's address
 *   Topology: first the RuntimeEnvironment
 *   Peer: a counter of references (int) at PEER_REFERENCES
 *   InetAddress is a sockaddr_storage, Address a uint64_t, SharedPtr a pointer that counts, returned in memory
 */
#define NODE_ENVIRONMENT 8
#define NODE_ENVIRONMENT_POINTER 0x3a0
#define ENVIRONMENT_TOPOLOGY 48
#define ENVIRONMENT_ADDRESS 72
#define PEER_REFERENCES 0x78c

struct shared_pointer {
	void *object;
};
struct shared_pointer *topology_get_peer(struct shared_pointer *result, void *topology, void *thread, const uint64_t *address)
    __asm__("_ZN8ZeroTier8Topology7getPeerEPvRKNS_7AddressE");
void peer_send_hello(void *peer, void *thread, int64_t socket, const struct sockaddr_storage *to, int64_t now)
    __asm__("_ZN8ZeroTier4Peer9sendHELLOEPvlRKNS_11InetAddressEl");
void peer_reset(void *peer, void *thread, int scope, int family, int64_t now)
    __asm__("_ZN8ZeroTier4Peer16resetWithinScopeEPvNS_11InetAddress7IpScopeEil");
void peer_destroy(void *peer) __asm__("_ZN8ZeroTier4PeerD1Ev");

struct contact {
	core_node *core;
	void *topology;
	void (*operator_delete)(void *);
	struct underlay *underlay;
	int64_t looked;
	bool busy;
	struct watch *watches; /* in the order of node addresses, as the core lists its peers */
	struct sockaddr_storage *last; /* beside each watch: the address of its last preferred path */
	size_t watch_count;
	uint64_t hints[HINTS]; /* accessed atomically; 0: empty */
};

static void *word_at(const void *object, size_t offset) {
	void *word;
	memcpy(&word, (const char *)object + offset, sizeof word);
	return word;
}

static void *topology_of(core_node *core) {
	char *environment = (char *)core + NODE_ENVIRONMENT;
	if (word_at(core, NODE_ENVIRONMENT_POINTER) != environment || word_at(environment, 0) != core ||
	    (uintptr_t)word_at(environment, ENVIRONMENT_ADDRESS) != ZT_Node_address(core))
		return NULL;
	void *topology = word_at(environment, ENVIRONMENT_TOPOLOGY);
	return topology && word_at(topology, 0) == environment ? topology : NULL;
}

struct contact *contact_new(core_node *core, struct underlay *underlay) {
	void *topology = topology_of(core);
	void *operator_delete = dlsym(RTLD_DEFAULT, "_ZdlPv");
	if (!topology || !operator_delete) {
		say("the core library is laid out otherwise than this program knows it; install the one that comes with it");
		return NULL;
	}
	struct contact *contact = calloc(1, sizeof *contact);
	contact->core = core;
	contact->topology = topology;
	memcpy(&contact->operator_delete, &operator_delete, sizeof operator_delete);
	contact->underlay = underlay;
	return contact;
}

void contact_free(struct contact *contact) {
	if (!contact) return;
	free(contact->watches);
	free(contact->last);
	free(contact);
}

/* A reference to the core's Peer, to be released; NULL when the core knows no such node. */
static void *peer_of(struct contact *contact, uint64_t node) {
	struct shared_pointer result = {NULL};
	topology_get_peer(&result, contact->topology, NULL, &node);
	return result.object;
}

static void release(struct contact *contact, void *peer) {
	if (__sync_sub_and_fetch((int *)((char *)peer + PEER_REFERENCES), 1) > 0) return;
	peer_destroy(peer);
	contact->operator_delete(peer);
}

/* -- hints */

bool contact_hint(struct contact *contact, uint64_t peer) {
	for (size_t i = 0; i < HINTS; i++) {
		uint64_t empty = 0;
		if (__atomic_load_n(&contact->hints[i], __ATOMIC_RELAXED) == peer) return false;
		if (__atomic_compare_exchange_n(&contact->hints[i], &empty, peer, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return true;
	}
	return false;
}

static size_t take_hints(struct contact *contact, uint64_t taken[HINTS]) {
	size_t count = 0;
	for (size_t i = 0; i < HINTS; i++) {
		uint64_t peer = __atomic_exchange_n(&contact->hints[i], 0, __ATOMIC_RELAXED);
		if (peer) taken[count++] = peer;
	}
	return count;
}

static bool among(const uint64_t *nodes, size_t count, uint64_t node) {
	for (size_t i = 0; i < count; i++)
		if (nodes[i] == node) return true;
	return false;
}

/* -- the look */

static bool is_configured(const struct settings *settings, uint64_t node) {
	for (size_t i = 0; i < settings->try_count; i++)
		if (settings->tries[i].node == node) return true;
	return false;
}

static const struct core_path *preferred_of(const struct core_peer *peer) {
	for (unsigned int i = 0; i < peer->path_count && i < CORE_MAX_PATHS; i++)
		if (peer->paths[i].preferred) return &peer->paths[i];
	return NULL;
}

static void hello(void *object, const struct settings *settings, int64_t socket, const struct sockaddr_storage *to, int64_t now) {
	if (to->ss_family && !address_excluded(settings, to)) peer_send_hello(object, NULL, socket, to, now);
}

/* Everywhere: the addresses that are configured, those of the paths that the core remembers, and that of the last one. */
static void search(void *object, const struct settings *settings, const struct core_peer *peer,
                   const struct sockaddr_storage *last, int64_t now) {
	bool last_is_new = last->ss_family != 0;
	for (size_t i = 0; i < settings->try_count; i++) {
		if (settings->tries[i].node != peer->address) continue;
		hello(object, settings, -1, &settings->tries[i].address, now);
		if (memcmp(&settings->tries[i].address, last, sizeof *last) == 0) last_is_new = false;
	}
	for (unsigned int i = 0; i < peer->path_count && i < CORE_MAX_PATHS; i++)
		hello(object, settings, peer->paths[i].socket, &peer->paths[i].address, now);
	if (last_is_new) hello(object, settings, -1, last, now);
}

static void look_at(struct contact *contact, const struct settings *settings, const struct core_peer *peer,
                    struct watch *watch, struct sockaddr_storage *last, bool hinted, int64_t now) {
	const struct core_path *path = preferred_of(peer);
	struct preferred_path seen = {.found = path != NULL};
	if (path) {
		seen.sent = (int64_t)path->last_send;
		seen.received = (int64_t)path->last_receive;
		seen.gone = !underlay_has(contact->underlay, path->socket);
		*last = path->address;
	}
	int todo = recovery_look(watch, &seen, is_configured(settings, peer->address), hinted, now);
	contact->busy |= watch->asked != 0 || hinted;
	void *object = todo ? peer_of(contact, peer->address) : NULL;
	if (!object) return;
	if (todo & RECOVERY_ASK && path) hello(object, settings, path->socket, &path->address, now);
	if (todo & RECOVERY_RESET && path) peer_reset(object, NULL, path->scope, path->address.ss_family, now);
	if (todo & RECOVERY_SEARCH) search(object, settings, peer, last, now);
	release(contact, object);
}

/* The watches of the peers that there are now, those of earlier ones taken over; both lists are in the same order. */
static bool renew(struct contact *contact, const struct core_peers *list) {
	struct watch *watches = calloc(list->count + 1, sizeof *watches);
	struct sockaddr_storage *last = calloc(list->count + 1, sizeof *last);
	if (!watches || !last) {
		free(watches);
		free(last);
		return false;
	}
	size_t old = 0;
	for (size_t i = 0; i < list->count; i++) {
		watches[i].node = list->peers[i].address;
		while (old < contact->watch_count && contact->watches[old].node < watches[i].node) old++;
		if (old == contact->watch_count || contact->watches[old].node != watches[i].node) continue;
		watches[i] = contact->watches[old];
		last[i] = contact->last[old];
	}
	free(contact->watches);
	free(contact->last);
	contact->watches = watches;
	contact->last = last;
	contact->watch_count = list->count;
	return true;
}

int contact_pause(const struct contact *contact) {
	for (size_t i = 0; i < HINTS; i++)
		if (__atomic_load_n(&contact->hints[i], __ATOMIC_RELAXED)) return LOOK_BUSY_MS;
	return contact->watch_count > CROWD ? LOOK_CROWD_MS : contact->busy ? LOOK_BUSY_MS : LOOK_MS;
}

void contact_look(struct contact *contact, const struct settings *settings, int64_t now) {
	if (now >= contact->looked && now - contact->looked < contact_pause(contact)) return;
	contact->looked = now;
	contact->busy = false;
	uint64_t hinted[HINTS];
	size_t hint_count = take_hints(contact, hinted);
	struct core_peers *list = ZT_Node_peers(contact->core);
	if (list && renew(contact, list))
		for (size_t i = 0; i < list->count; i++)
			look_at(contact, settings, &list->peers[i], &contact->watches[i], &contact->last[i],
			        among(hinted, hint_count, list->peers[i].address), now);
	if (list) ZT_Node_freeQueryResult(contact->core, list);
}
