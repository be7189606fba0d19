#include "gate.h"

#include "bucket.h"

#include "hello.h"
#include "util.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Heads of packets: number, destination, source, flags, MAC, verb. A fragment has FRAGMENT where others have the first
 * byte of their source, which no node has, and neither source nor MAC. */
enum { DESTINATION = 8, SOURCE = 13, FLAGS = 18, VERB = 27, PACKET_LEAST = 28, FRAGMENT_LEAST = 17, FRAGMENT = 0xff };
enum { VERB_MASK = 0x1f, VERB_HELLO = 1, CIPHER_MASK = 0x38, HELLO_TIME = 33, HELLO_LEAST = 41 };

#define GUESTS 1024
#define AHEAD_MS 300000 /* by which a remote's clock may differ from ours and be right */

/* How many strangers' addresses become guests a second and at once, and what all guests together may send. Where anybody
 * may say HELLO, the core needs up to 50 ms to see whether an identity is genuine, and everything else waits for that. */
struct limits {
	double guests, guests_at_once, packets, packets_at_once, hellos, hellos_at_once;
};
static const struct limits open_limits = {20, 200, 2000, 500, 2, 4}, closed_limits = {20, 64, 10000, 2000, 0, 0};

/* An address with port, comparable as bytes. */
struct place {
	uint16_t family, port;
	unsigned char address[16];
};
struct known {
	size_t mask; /* slots - 1, a power of two less one */
	struct place slots[];
};
struct guest {
	struct place place;
	int64_t until;
	bool proven; /* a new HELLO of a remote came from there */
};
struct remote {
	uint64_t node, newest; /* the node first, by_node; time in its newest HELLO, by its own clock */
	size_t index;          /* in the list that was given */
	struct bucket moves;   /* addresses that it may prove to be its own */
	int64_t filled;
};
/* A remote with several uplinks behind a NAT has a few dozen at once; the core keeps hundreds of bytes for each. */
#define MOVES_PER_S 5.0
#define MOVES_BURST 64.0
struct counts {
	_Atomic uint64_t foreign, forged, strangers;
};
struct gate {
	uint64_t self, seed;
	bool closed;
	struct remote *remotes; /* in order of their nodes */
	size_t remote_count;
	gate_authentic *authentic;
	void *context;
	struct known *known;           /* of the thread that receives */
	_Atomic(struct known *) fresh; /* handed over by gate_know */
	struct place last;             /* one that is known; packets of a peer come in runs */
	struct guest guests[GUESTS];
	struct bucket places, packets, hellos;
	int64_t filled;
	struct counts counts;
};

static void set_limits(struct gate *gate, struct limits limits) {
	gate->places = (struct bucket){limits.guests, limits.guests_at_once, limits.guests_at_once};
	gate->packets = (struct bucket){limits.packets, limits.packets_at_once, limits.packets_at_once};
	gate->hellos = (struct bucket){limits.hellos, limits.hellos_at_once, limits.hellos_at_once};
}

struct gate *gate_new(uint64_t self, uint64_t seed) {
	struct gate *gate = calloc(1, sizeof *gate);
	if (!gate) return NULL;
	gate->self = self;
	gate->seed = seed | 1;
	set_limits(gate, open_limits);
	return gate;
}

bool gate_close(struct gate *gate, const uint64_t *remotes, size_t count, gate_authentic *authentic, void *context) {
	gate->remotes = calloc(count + 1, sizeof *gate->remotes);
	if (!gate->remotes) return false;
	gate->closed = true;
	gate->remote_count = count;
	for (size_t i = 0; i < count; i++)
		gate->remotes[i] = (struct remote){remotes[i], 0, i, {MOVES_PER_S, MOVES_BURST, MOVES_BURST}, 0};
	qsort(gate->remotes, count, sizeof *gate->remotes, by_node);
	gate->authentic = authentic;
	gate->context = context;
	set_limits(gate, closed_limits);
	return true;
}

void gate_free(struct gate *gate) {
	if (!gate) return;
	free(gate->remotes);
	free(gate->known);
	free(gate->fresh);
	free(gate);
}

bool gate_closed(const struct gate *gate) { return gate->closed; }

struct gate_counts gate_counts(const struct gate *gate) {
	return (struct gate_counts){
		atomic_load_explicit(&gate->counts.foreign, memory_order_relaxed),
		atomic_load_explicit(&gate->counts.forged, memory_order_relaxed),
		atomic_load_explicit(&gate->counts.strangers, memory_order_relaxed),
	};
}

static enum gate_verdict refuse(_Atomic uint64_t *count) {
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
	return GATE_REFUSED;
}

/* -- addresses */

static struct place place_of(const struct sockaddr_storage *from) {
	struct place place = {.family = from->ss_family, .port = address_port(from)};
	if (from->ss_family == AF_INET) memcpy(place.address, &((const struct sockaddr_in *)from)->sin_addr, 4);
	if (from->ss_family == AF_INET6) memcpy(place.address, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
	return place;
}

static bool same_place(const struct place *a, const struct place *b) { return memcmp(a, b, sizeof *a) == 0; }

/* Nobody outside knows the seed, so nobody can choose addresses that fall on one slot. */
static uint64_t hash_of(const struct gate *gate, const struct place *place) {
	uint64_t words[2], sum = gate->seed ^ ((uint64_t)place->family << 16 | place->port);
	memcpy(words, place->address, sizeof words);
	for (int i = 0; i < 3; i++) {
		sum ^= sum >> 32;
		sum *= 0x9e3779b97f4a7c15ULL;
		sum ^= sum >> 29;
		if (i < 2) sum += words[i] * gate->seed;
	}
	return sum;
}

void gate_know(struct gate *gate, const struct sockaddr_storage *places, size_t count) {
	size_t slots = 16;
	while (slots < 2 * count) slots *= 2;
	struct known *known = calloc(1, sizeof *known + slots * sizeof *known->slots);
	if (!known) return;
	known->mask = slots - 1;
	for (size_t i = 0; i < count; i++) {
		struct place place = place_of(&places[i]);
		if (place.family != AF_INET && place.family != AF_INET6) continue;
		size_t at = hash_of(gate, &place) & known->mask;
		while (known->slots[at].family && !same_place(&known->slots[at], &place)) at = (at + 1) & known->mask;
		known->slots[at] = place;
	}
	free(atomic_exchange(&gate->fresh, known));
}

static bool is_known(struct gate *gate, const struct place *place) {
	if (atomic_load_explicit(&gate->fresh, memory_order_relaxed)) {
		free(gate->known);
		gate->known = atomic_exchange(&gate->fresh, NULL);
		gate->last.family = 0;
	}
	if (same_place(&gate->last, place)) return true;
	if (!gate->known) return false;
	for (size_t at = hash_of(gate, place) & gate->known->mask; gate->known->slots[at].family;
	     at = (at + 1) & gate->known->mask)
		if (same_place(&gate->known->slots[at], place)) {
			gate->last = *place;
			return true;
		}
	return false;
}

/* -- strangers */

static struct guest *guest_at(struct gate *gate, const struct place *place, int64_t now) {
	struct guest *guest = &gate->guests[(hash_of(gate, place) >> 40) % GUESTS];
	if (guest->until <= now) *guest = (struct guest){.place = *place};
	return guest;
}

static bool is_guest(const struct guest *guest, const struct place *place) {
	return guest->until && same_place(&guest->place, place);
}

/* A remote has proved that it is there. */
static void take_in(struct guest *guest, const struct place *place, int64_t now) {
	*guest = (struct guest){*place, now + GATE_GUEST_MS, true};
}

static void fill_all(struct gate *gate, int64_t now) {
	double seconds = (double)(now - gate->filled) / 1000;
	if (seconds < 0.001) return;
	bucket_fill(&gate->places, seconds);
	bucket_fill(&gate->packets, seconds);
	bucket_fill(&gate->hellos, seconds);
	gate->filled = now;
}

static enum gate_verdict receive_stranger(struct gate *gate, struct guest *guest, const struct place *place, bool may_come,
                                          int64_t now) {
	if (!is_guest(guest, place)) {
		if (guest->until || !may_come || !bucket_take(&gate->places)) return GATE_REFUSED;
		*guest = (struct guest){*place, now + GATE_GUEST_MS, false};
	}
	return guest->proven ? GATE_KNOWN : bucket_take(&gate->packets) ? GATE_GUEST : GATE_REFUSED;
}

/* -- packets */

/* Whether the core takes a packet for a HELLO, whole or the head of fragments. */
static bool is_hello(const unsigned char *packet) {
	return (packet[FLAGS] & CIPHER_MASK) == 0 && (packet[VERB] & VERB_MASK) == VERB_HELLO;
}

/* Whether a remote's HELLO is newer than all before, or its clock, which was far ahead, has been set right. */
static bool is_newest(const struct remote *remote, uint64_t time, int64_t now) {
	uint64_t ahead = (uint64_t)now + AHEAD_MS;
	return time > remote->newest || (remote->newest > ahead && time <= ahead);
}

/* Whether it may come from one more address that is not known. */
static bool may_move(struct remote *remote, int64_t now) {
	bucket_fill(&remote->moves, (double)(now - remote->filled) / 1000);
	remote->filled = now;
	return bucket_take(&remote->moves);
}

static struct remote *remote_of(struct gate *gate, uint64_t node) {
	struct remote key = {.node = node};
	return gate->remote_count ? bsearch(&key, gate->remotes, gate->remote_count, sizeof key, by_node) : NULL;
}

enum gate_verdict gate_pass(struct gate *gate, const struct sockaddr_storage *from, const unsigned char *packet,
                            size_t length, int64_t now) {
	bool fragment = length > SOURCE && packet[SOURCE] == FRAGMENT;
	if (length < (fragment ? FRAGMENT_LEAST : PACKET_LEAST)) return refuse(&gate->counts.foreign);
	uint64_t to = number_at(packet + DESTINATION, 5), source = fragment ? 0 : number_at(packet + SOURCE, 5);
	/* Nobody writes to himself; the core would introduce a remote to itself (introduce.c). */
	if (!fragment && (source == to || source == gate->self)) return refuse(&gate->counts.foreign);
	struct remote *sender = NULL;
	if (gate->closed) {
		if (!fragment) sender = remote_of(gate, source);
		if ((!fragment && !sender) || (to != gate->self && !remote_of(gate, to))) return refuse(&gate->counts.foreign);
	}
	struct place place = place_of(from);
	if (!place.port) return refuse(&gate->counts.foreign); /* no answer can go there */
	bool known = is_known(gate, &place);
	/* One in extended armor is looked at when that is off; in fragments none is ever sent, so that the MAC of a head alone,
	 * which is never right, keeps out none that is genuine. */
	bool hello =
		sender && to == gate->self && length >= HELLO_LEAST && is_hello(packet) && !hello_is_encrypted(packet, length);
	if (known && !hello) return GATE_KNOWN;
	struct guest *guest = guest_at(gate, &place, now);
	if (hello) {
		if (!gate->authentic(gate->context, sender->index, packet, length)) return refuse(&gate->counts.forged);
		uint64_t time = number_at(packet + HELLO_TIME, 8);
		bool newest = is_newest(sender, time, now);
		if (newest) sender->newest = time;
		if (known) return GATE_KNOWN;
		bool proven = is_guest(guest, &place) && guest->proven;
		if (newest && (proven || may_move(sender, now))) {
			take_in(guest, &place, now);
			return GATE_KNOWN;
		}
	}
	fill_all(gate, now);
	bool costly =
		!gate->closed && !fragment && to == gate->self && (is_hello(packet) || hello_is_encrypted(packet, length));
	if (costly && !bucket_take(&gate->hellos)) return refuse(&gate->counts.strangers);
	bool may_come = !(gate->closed && fragment); /* who has sent nothing else has no use for it */
	enum gate_verdict verdict = receive_stranger(gate, guest, &place, may_come, now);
	return verdict == GATE_REFUSED ? refuse(&gate->counts.strangers) : verdict;
}
