#include "contact.h"

#include "homing.h"
#include "introduce.h"
#include "recovery.h"
#include "relay.h"
#include "util.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 250        /* between two looks, and */
#define LOOK_CROWD_MS 1000 /* where there are more peers than */
#define CROWD 64
#define LOOK_BUSY_MS 50 /* between two looks while a question is open or a hint was given */
#define HINTS 32
#define PLACES 4
#define SILENT_MS 500 /* a kept path that has brought nothing for so long is asked when its peer is heard elsewhere */

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
struct shared_pointer *topology_get_peer(struct shared_pointer *result, void *topology, void *thread,
                                         const uint64_t *address) __asm__("_ZN8ZeroTier8Topology7getPeerEPvRKNS_7AddressE");
void peer_send_hello(void *peer, void *thread, int64_t socket, const struct sockaddr_storage *to,
                     int64_t now) __asm__("_ZN8ZeroTier4Peer9sendHELLOEPvlRKNS_11InetAddressEl");
void peer_reset(void *peer, void *thread, int scope, int family,
                int64_t now) __asm__("_ZN8ZeroTier4Peer16resetWithinScopeEPvNS_11InetAddress7IpScopeEil");
void peer_destroy(void *peer) __asm__("_ZN8ZeroTier4PeerD1Ev");

struct hint {
	uint64_t node;
	struct sockaddr_storage address;
};

/* A peer, and the latest addresses at which it was or is said to be; the first is that of its last path. */
struct known {
	struct watch watch;
	struct homing homing;
	struct sockaddr_storage places[PLACES];
	unsigned int told; /* how many others have been kept, and given up again */
};

/* A path that works, or is about to, over the uplink that the routes prefer. */
struct kept {
	uint64_t node; /* first: by_node */
	int64_t socket;
	struct sockaddr_storage address;
	bool silent;
};

struct contact {
	core_node *core;
	void *topology;
	void (*operator_delete)(void *);
	struct underlay *underlay;
	struct guard *guard;
	int64_t looked;
	bool busy;
	struct known *known; /* in the order of node addresses, as the core lists its peers */
	size_t known_count;
	struct kept *next; /* what the look that goes on has found to keep; NULL without memory */
	size_t next_count;
	pthread_mutex_t lock;     /* of what follows; nothing is called under it */
	struct kept *kept;        /* in the same order; without peers whose paths have no choice of an uplink */
	atomic_size_t kept_count; /* read without it, too, as the next */
	struct hint hints[HINTS];
	atomic_size_t hint_count; /* read without it, too: whether there are any */
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

struct contact *contact_new(core_node *core, struct underlay *underlay, struct guard *guard) {
	void *topology = topology_of(core);
	void *operator_delete = dlsym(RTLD_DEFAULT, "_ZdlPv");
	if (!topology || !operator_delete) {
		say("ztnode does not know the layout of this core library; install the one that comes with ztnode");
		return NULL;
	}
	struct contact *contact = calloc(1, sizeof *contact);
	if (!contact) return NULL;
	contact->core = core;
	contact->topology = topology;
	memcpy(&contact->operator_delete, &operator_delete, sizeof operator_delete);
	contact->underlay = underlay;
	contact->guard = guard;
	pthread_mutex_init(&contact->lock, NULL);
	return contact;
}

void contact_free(struct contact *contact) {
	if (!contact) return;
	pthread_mutex_destroy(&contact->lock);
	free(contact->known);
	free(contact->kept);
	free(contact);
}

/* A reference to the core's Peer, to be released; NULL when the core knows no such node. */
static void *peer_of(struct contact *contact, uint64_t node) {
	struct shared_pointer result = {NULL};
	topology_get_peer(&result, contact->topology, NULL, &node);
	return result.object;
}

static void release(struct contact *contact, void *peer) {
	if (atomic_fetch_sub((atomic_int *)(void *)((char *)peer + PEER_REFERENCES), 1) > 1) return;
	peer_destroy(peer);
	contact->operator_delete(peer);
}

/* -- hints */

bool contact_hint(struct contact *contact, uint64_t peer, const struct sockaddr_storage *address) {
	bool fresh = true;
	pthread_mutex_lock(&contact->lock);
	for (size_t i = 0; i < contact->hint_count; i++)
		if (contact->hints[i].node == peer && same_endpoint(&contact->hints[i].address, address)) fresh = false;
	fresh &= contact->hint_count < HINTS;
	if (fresh) contact->hints[contact->hint_count++] = (struct hint){peer, *address};
	pthread_mutex_unlock(&contact->lock);
	return fresh;
}

static size_t take_hints(struct contact *contact, struct hint taken[HINTS]) {
	pthread_mutex_lock(&contact->lock);
	size_t count = contact->hint_count;
	memcpy(taken, contact->hints, count * sizeof *taken);
	contact->hint_count = 0;
	pthread_mutex_unlock(&contact->lock);
	return count;
}

bool contact_keeps(struct contact *contact, uint64_t peer, int64_t socket, const struct sockaddr_storage *address,
                   bool *silent) {
	bool keeps = false;
	if (!contact->kept_count) return false;
	pthread_mutex_lock(&contact->lock);
	size_t count = contact->kept_count; /* it may be none by now */
	const struct kept *kept = count ? bsearch(&peer, contact->kept, count, sizeof *kept, by_node) : NULL;
	if (kept) {
		keeps = kept->socket != socket && same_address(&kept->address, address);
		*silent = kept->silent;
	}
	pthread_mutex_unlock(&contact->lock);
	return keeps;
}

/* -- the look */

static bool is_configured(const struct settings *settings, uint64_t node) {
	for (size_t i = 0; i < settings->try_count; i++)
		if (settings->tries[i].node == node) return true;
	return false;
}

static void hello(void *object, const struct settings *settings, int64_t socket, const struct sockaddr_storage *to,
                  int64_t now) {
	if (to->ss_family && !address_excluded(settings, to)) peer_send_hello(object, NULL, socket, to, now);
}

static void remember(struct known *known, const struct sockaddr_storage *place) {
	for (unsigned int i = 0; i < PLACES; i++)
		if (same_endpoint(&known->places[i], place)) return;
	known->places[1 + known->told++ % (PLACES - 1)] = *place;
}

/* Whether a peer that is configured to be somewhere is heard from elsewhere. Another port alone is a NAT's work. */
static bool is_astray(const struct settings *settings, uint64_t node, const struct sockaddr_storage *place) {
	for (size_t i = 0; i < settings->try_count; i++)
		if (settings->tries[i].node == node && same_address(&settings->tries[i].address, place)) return false;
	return is_configured(settings, node);
}

static void try_all(void *object, const struct settings *settings, uint64_t node, int64_t now) {
	for (size_t i = 0; i < settings->try_count; i++)
		if (settings->tries[i].node == node) hello(object, settings, -1, &settings->tries[i].address, now);
}

/* Everywhere: the addresses that are configured, those of the paths that the core remembers, and the latest others. */
static void search(void *object, const struct settings *settings, const struct core_peer *peer, const struct known *known,
                   int64_t now) {
	try_all(object, settings, peer->address, now);
	for (unsigned int i = 0; i < peer->path_count && i < CORE_MAX_PATHS; i++)
		hello(object, settings, peer->paths[i].socket, &peer->paths[i].address, now);
	for (unsigned int i = 0; i < PLACES; i++)
		if (!try_listed(settings, peer->address, &known->places[i])) hello(object, settings, -1, &known->places[i], now);
}

/* Ask the peer over the uplink that the routes prefer, where its path leads over another: the answer makes it the path. */
static void follow_route(struct contact *contact, const struct settings *settings, struct known *known,
                         const struct core_path *path, int64_t now) {
	if (!homing_due(&known->homing, now)) return;
	int64_t better = underlay_better(contact->underlay, path->socket, &path->address);
	void *object = homing_compared(&known->homing, better, now) ? peer_of(contact, known->watch.node) : NULL;
	if (!object) return;
	hello(object, settings, better, &path->address, now);
	release(contact, object);
}

/* The path to a peer stays where it is when it works and is at home, or about to be. */
static void keep(struct contact *contact, struct known *known, const struct core_path *path,
                 const struct preferred_path *seen, int64_t now) {
	int64_t home = homing_socket(&known->homing, path->socket, now);
	if (!home || !contact->next || !recovery_trusts(&known->watch, seen, now) ||
	    !underlay_has_choice(contact->underlay, path->socket))
		return;
	contact->next[contact->next_count++] =
		(struct kept){known->watch.node, home, path->address, now - seen->received >= SILENT_MS};
}

static void look_at(struct contact *contact, const struct settings *settings, const struct core_peer *peer,
                    struct known *known, bool hinted, int64_t now) {
	const struct core_path *path = core_preferred(peer);
	struct preferred_path seen = {.found = path != NULL};
	if (path) {
		seen.sent = (int64_t)path->last_send;
		seen.received = (int64_t)path->last_receive;
		for (unsigned int i = 0; i < peer->path_count && i < CORE_MAX_PATHS; i++)
			if ((int64_t)peer->paths[i].last_receive > seen.heard) seen.heard = (int64_t)peer->paths[i].last_receive;
		seen.latency = peer->latency;
		seen.gone = !underlay_has(contact->underlay, path->socket);
		seen.astray = guard_closed(contact->guard) && is_astray(settings, peer->address, &path->address);
		known->places[0] = path->address;
	}
	/* Roots of a planet are many people's and looked for by the core; a moon is somebody's own choice, as an address is. */
	bool ours = is_configured(settings, peer->address) ||
	            (peer->role == CORE_ROLE_MOON && (known->told || known->places[0].ss_family));
	if (path && !seen.gone) follow_route(contact, settings, known, path, now);
	int todo = recovery_look(&known->watch, &seen, ours, hinted, now);
	if (todo & RECOVERY_RESET) homing_fell(&known->homing, now);
	if (path) keep(contact, known, path, &seen, now);
	contact->busy |= known->watch.asked != 0 || hinted;
	void *object = todo ? peer_of(contact, peer->address) : NULL;
	if (!object) return;
	if (todo & RECOVERY_ASK && path) hello(object, settings, path->socket, &path->address, now);
	if (todo & RECOVERY_RESET && path) peer_reset(object, NULL, path->scope, path->address.ss_family, now);
	if (todo & RECOVERY_TRY) try_all(object, settings, peer->address, now);
	if (todo & RECOVERY_SEARCH) search(object, settings, peer, known, now);
	release(contact, object);
}

/* What is known of the peers that there are now, taken over from the last look; both lists are in the same order. */
static bool renew(struct contact *contact, const struct core_peers *list) {
	struct known *known = calloc(list->count + 1, sizeof *known);
	if (!known) return false;
	size_t old = 0;
	for (size_t i = 0; i < list->count; i++) {
		uint64_t node = list->peers[i].address;
		while (old < contact->known_count && contact->known[old].watch.node < node) old++;
		if (old < contact->known_count && contact->known[old].watch.node == node) known[i] = contact->known[old];
		known[i].watch.node = node;
	}
	free(contact->known);
	contact->known = known;
	contact->known_count = list->count;
	return true;
}

/* By what this look has found. */
static void replace_kept(struct contact *contact) {
	pthread_mutex_lock(&contact->lock);
	struct kept *old = contact->kept;
	contact->kept = contact->next;
	contact->kept_count = contact->next_count;
	pthread_mutex_unlock(&contact->lock);
	free(old);
	contact->next = NULL;
}

int contact_pause(const struct contact *contact) {
	return contact->known_count > CROWD                              ? LOOK_CROWD_MS
	       : contact->busy || contact->hint_count || introduce_due() ? LOOK_BUSY_MS
	                                                                 : LOOK_MS;
}

void contact_look(struct contact *contact, const struct settings *settings, int64_t now) {
	if (now - contact->looked < contact_pause(contact)) return;
	contact->looked = now;
	contact->busy = false;
	struct hint hints[HINTS];
	size_t hint_count = take_hints(contact, hints);
	struct core_peers *list = ZT_Node_peers(contact->core);
	bool good = list && renew(contact, list);
	contact->next = list ? calloc(list->count + 1, sizeof *contact->next) : NULL;
	contact->next_count = 0;
	if (list) relay_choose(list);
	if (list) guard_know(contact->guard, list, settings);
	if (list) introduce_look(list, ZT_Node_address(contact->core), now);
	for (size_t i = 0; good && i < list->count; i++) {
		bool hinted = false;
		for (size_t k = 0; k < hint_count; k++) {
			if (hints[k].node != list->peers[i].address) continue;
			hinted = true;
			remember(&contact->known[i], &hints[k].address);
		}
		look_at(contact, settings, &list->peers[i], &contact->known[i], hinted, now);
	}
	replace_kept(contact);
	if (list) ZT_Node_freeQueryResult(contact->core, list);
}
