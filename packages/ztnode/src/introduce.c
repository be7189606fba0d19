/* Introductions, in place of the core's.
 *
 * Who relays between two peers tells each where the other is (RENDEZVOUS), so that both begin at once and their NATs let
 * the packets through. Core 1.8.4 does it with flaws (Peer::introduce): it encrypts both messages with the keys of one
 * peer, so only this one can read its own (fixed in later versions); a packet that claims to be from the node that it is
 * for has a peer introduced to itself, which takes one lock twice and so hangs, and anybody can send one; and it looks for
 * addresses of one scope, which scope.c makes differ where one of them is configured. Which two it has introduced, the core
 * keeps for four minutes, in a table that grows with every pair that it is sent a packet of, and anybody can make up
 * sources (Switch::_shouldUnite).
 *
 * The core calls both functions by way of its procedure linkage table, where a program comes before its libraries. Here the
 * first does nothing: where a packet goes on to another relay, it would introduce this one, which who sends knows. The
 * second takes down the pair, of which the main loop tells both. */
#include "introduce.h"

#include "scope.h"
#include "util.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void peer_introduce(const void *peer, void *thread, int64_t now, const void *const *other) {
	(void)peer, (void)thread, (void)now, (void)other;
}

/* -- whom to introduce */

#define UNITED_MS 30000            /* as the core has it: between two introductions of the same two */
enum { UNITED = 8192, ALIKE = 4 }; /* enough for all pairs of 150 nodes */
#define MEETINGS 256               /* at most, between two looks; more are noticed by their next packet */

struct meeting {
	uint64_t low, high;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these; nothing is called under it */
static struct meeting meetings[MEETINGS];
static uint64_t *known; /* the nodes of the last look, in order */
static size_t known_count;

static atomic_size_t meeting_count; /* read without the lock, too: whether there are any */
static _Atomic(void *) core_switch;

static bool is_known(uint64_t node) { return known_count && bsearch(&node, known, known_count, sizeof node, by_node); }

static bool note(struct meeting meeting) {
	pthread_mutex_lock(&lock);
	bool room = meeting_count < MEETINGS && is_known(meeting.low) && is_known(meeting.high);
	if (room) meetings[meeting_count++] = meeting;
	pthread_mutex_unlock(&lock);
	return room;
}

/* Pairs that share a set with more than there is room for wait until one is due again: none makes another come up sooner.
 */
bool should_unite(void *own, int64_t now, const uint64_t *source, const uint64_t *destination) {
	static struct pair {
		struct meeting of;
		int64_t at;
	} united[UNITED][ALIKE]; /* of the thread that receives */
	uint64_t low = *source < *destination ? *source : *destination, high = *source ^ *destination ^ low;
	struct pair *set = united[((low ^ high << 24) * 0x9e3779b97f4a7c15ULL >> 40) % UNITED], *place = NULL;
	for (struct pair *pair = set; pair < set + ALIKE; pair++) {
		bool fresh = pair->at && now - pair->at < UNITED_MS;
		if (fresh && pair->of.low == low && pair->of.high == high) return false;
		if (!fresh) place = pair;
	}
	if (!place || low == high) return false;
	atomic_store(&core_switch, own); /* before there is a meeting that needs it */
	if (note((struct meeting){low, high})) *place = (struct pair){{low, high}, now};
	return false;
}

bool introduce_due(void) { return meeting_count; }

static void know(const struct core_peers *peers) {
	uint64_t *nodes = calloc(peers->count + 1, sizeof *nodes), *old;
	for (size_t i = 0; nodes && i < peers->count; i++) nodes[i] = peers->peers[i].address;
	pthread_mutex_lock(&lock);
	old = known;
	known = nodes;
	known_count = nodes ? peers->count : 0;
	pthread_mutex_unlock(&lock);
	free(old);
}

/* -- where they are */

#define ALIVE_MS 19000 /* as the core has it: since a path was heard of last */
enum { SCOPES = 8 };

static bool is_better(const struct core_path *path, const struct core_path *than) {
	bool configured = scope_is_configured(&path->address);
	if (configured != scope_is_configured(&than->address)) return configured;
	if (path->preferred != than->preferred) return path->preferred;
	return path->last_receive > than->last_receive;
}

/* The best of a peer's addresses of a family and scope; NULL where there is none. */
static const struct core_path *place_of(const struct core_peer *peer, int family, int scope, bool configured, int64_t now) {
	const struct core_path *best = NULL, *preferred = core_preferred(peer);
	for (unsigned int i = 0; i < peer->path_count && i < CORE_MAX_PATHS; i++) {
		const struct core_path *path = &peer->paths[i];
		if (configured && !scope_is_configured(&path->address)) continue;
		/* The core seals, or not, as for the path that it prefers. */
		if (preferred && path->trusted_path_id != preferred->trusted_path_id) continue;
		if (path->address.ss_family == family && scope_unranked(&path->address) == scope &&
		    now - (int64_t)path->last_receive < ALIVE_MS && (!best || is_better(path, best)))
			best = path;
	}
	return best;
}

/* -- what they are told */

enum { DESTINATION = 8, SOURCE = 13, VERB = 27, NODE = 29, PORT = 34, ADDRESS = 37, VERB_RENDEZVOUS = 5, NO_FLOW = -1 };

void core_send(void *core_switch, void *thread, void *packet, bool encrypt,
               int32_t flow) __asm__("_ZN8ZeroTier6Switch4sendEPvRNS_6PacketEbi");

/* The way of what is sent now. */
static _Thread_local const struct core_path *way;
static _Thread_local unsigned int way_length; /* a HELLO that the core may send before it is longer */

void introduce_redirect(unsigned int length, int64_t *socket, const struct sockaddr_storage **to) {
	if (!way || length != way_length) return;
	*socket = way->socket;
	*to = &way->address;
}

/* By the path whose address the other is told of: who reads it answers by the socket that it came by, and has to open the
 * NAT in front of that one. */
static void tell(uint64_t self, const struct core_peer *whom, const struct core_path *by, uint64_t of,
                 const struct sockaddr_storage *place) {
	struct core_packet packet = {.length = 0};
	bool v6 = place->ss_family == AF_INET6;
	const void *address = v6 ? (const void *)&((const struct sockaddr_in6 *)place)->sin6_addr
	                         : (const void *)&((const struct sockaddr_in *)place)->sin_addr;
	unsigned char *bytes = packet.bytes;
	core_random(bytes, 8);
	put_number(bytes + DESTINATION, whom->address, 5), put_number(bytes + SOURCE, self, 5);
	bytes[VERB] = VERB_RENDEZVOUS;
	put_number(bytes + NODE, of, 5);
	put_number(bytes + PORT, address_port(place), 2);
	bytes[ADDRESS - 1] = v6 ? 16 : 4;
	memcpy(bytes + ADDRESS, address, bytes[ADDRESS - 1]);
	packet.length = ADDRESS + bytes[ADDRESS - 1];
	way = by;
	way_length = packet.length;
	core_send(atomic_load(&core_switch), NULL, &packet, true, NO_FLOW);
	way = NULL;
}

/* Whether they have addresses of one IP version and scope; then each is told of the best. */
static bool tell_both(const struct core_peer *one, const struct core_peer *other, int family, int scope, bool configured,
                      uint64_t self, int64_t now) {
	const struct core_path *here = place_of(one, family, scope, configured, now);
	const struct core_path *there = here ? place_of(other, family, scope, configured, now) : NULL;
	if (!there) return false;
	tell(self, one, here, other->address, &there->address);
	tell(self, other, there, one->address, &here->address);
	return true;
}

static void introduce(const struct core_peer *one, const struct core_peer *other, uint64_t self, int64_t now) {
	static const int families[] = {AF_INET6, AF_INET};
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		bool configured = false;
		for (int scope = SCOPES - 1; scope > 0; scope--)
			configured |= tell_both(one, other, families[i], scope, true, self, now);
		for (int scope = SCOPES - 1; scope > 0 && !configured; scope--)
			tell_both(one, other, families[i], scope, false, self, now);
	}
}

static const struct core_peer *find(const struct core_peers *peers, uint64_t node) {
	return bsearch(&node, peers->peers, peers->count, sizeof *peers->peers, by_node);
}

void introduce_look(const struct core_peers *peers, uint64_t self, int64_t now) {
	struct meeting taken[MEETINGS];
	know(peers);
	pthread_mutex_lock(&lock);
	size_t count = meeting_count;
	memcpy(taken, meetings, count * sizeof *taken);
	meeting_count = 0;
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < count; i++) {
		const struct core_peer *one = find(peers, taken[i].low), *other = find(peers, taken[i].high);
		if (one && other) introduce(one, other, self, now);
	}
}
