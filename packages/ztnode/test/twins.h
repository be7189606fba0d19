/* Two cores of one identity get the same packets and frames: one alone, the other behind the shortcut. What they deliver,
 * what they send and when they say that they last heard of a peer must be the same. Their peer is a third core.
 *
 * Time stands still within a batch. What happens is chosen by the bytes that `next` gives. */
#ifndef ZTNODE_TEST_TWINS_H
#define ZTNODE_TEST_TWINS_H

#include "armor.h"
#include "core.h"
#include "decode.h"
#include "identity.h"
#include "shortcut.h"
#include "siv.h"
#include "util.h"
#include "verbs.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
static void fail(int line, const char *what);
static long batch_number;
static void fail(int line, const char *what) {
	fprintf(stderr, "twins.h:%d: %s, batch %ld\n", line, what, batch_number);
	abort();
}

enum { NETWORKS = 9, OUTBOX = 256, FRAMES = 64, FRAME_MOST = 2100, PACKET_MOST = 2200 };
enum { AT_DESTINATION = 8, AT_SOURCE = 13, AT_FLAGS = 18, AT_VERB = 27, AT_NETWORK = 28, AT_TYPE = 36, AT_PAYLOAD = 38 };
#define NETWORK(i) (0x8056c2e21c000001ULL + (uint64_t)(i)) /* A has all but the last */

struct letter {
	int64_t socket;
	struct sockaddr_storage to;
	unsigned int length;
	unsigned char bytes[PACKET_MOST];
};
struct delivered {
	uint64_t nwid, source, destination;
	unsigned int type, length;
	unsigned char bytes[FRAME_MOST];
};
struct end;
struct place {
	struct end *end;
	uint64_t nwid, mac;
};
struct end {
	core_node *core;
	bool shortcut; /* is in front of it */
	char *secret, *public;
	uint64_t node;
	struct sockaddr_storage address;
	int64_t deadline;
	struct place places[NETWORKS];
	struct letter outbox[OUTBOX];
	unsigned int sent;
	struct delivered frames[FRAMES];
	unsigned int got;
	bool lost; /* more of either than there is room for */
};
static struct end alone, behind, peer; /* A twice, and B */
static char secrets[2][512], publics[2][512], configs[2][NETWORKS][512];
static size_t config_sizes[2][NETWORKS];
static unsigned char planet[512];
static size_t planet_size;
static int64_t now;
static struct siv_key keys[2]; /* from B to A */
static unsigned char old_key[32];
static bool has_keys, only_count, changed;
static unsigned long by_shortcut_in, by_shortcut_out, asked, asked_out;
static unsigned char (*next)(void);

static unsigned int number(void) { return (unsigned int)next() << 8 | next(); }

/* -- what the cores call */

static int side(const struct end *end) { return end == &peer; }

static void on_put(core_node *core, void *user, void *thread, int type, const uint64_t id[2], const void *data,
                   int length) {
	(void)core, (void)thread;
	struct end *end = user;
	char *into = type == CORE_STATE_IDENTITY_SECRET ? end->secret : type == CORE_STATE_IDENTITY_PUBLIC ? end->public : NULL;
	if (into && length > 0 && length < 512) memcpy(into, data, (size_t)length), into[length] = 0;
	if (type == CORE_STATE_NETWORK_CONFIG && end->shortcut)
		shortcut_network_written(id[0], data, length > 0 ? (size_t)length : 0);
}

static int on_get(core_node *core, void *user, void *thread, int type, const uint64_t id[2], void *data,
                  unsigned int size) {
	(void)core, (void)thread;
	struct end *end = user;
	uint64_t which = id[0] - NETWORK(0);
	bool config = type == CORE_STATE_NETWORK_CONFIG && which < NETWORKS;
	const void *from = type == CORE_STATE_IDENTITY_SECRET   ? (const void *)end->secret
	                   : type == CORE_STATE_IDENTITY_PUBLIC ? (const void *)end->public
	                   : type == CORE_STATE_PLANET          ? (const void *)planet
	                   : config                             ? (const void *)configs[side(end)][which]
	                                                        : NULL;
	size_t length = !from                       ? 0
	                : type == CORE_STATE_PLANET ? planet_size
	                : config                    ? config_sizes[side(end)][which]
	                                            : strlen(from);
	if (!length || length > size) return -1;
	memcpy(data, from, length);
	if (config && end->shortcut) shortcut_network_read(id[0], data, length);
	return (int)length;
}

static struct letter *room(struct end *end, int64_t socket, const struct sockaddr_storage *to, size_t length) {
	if (end->sent == OUTBOX || length > PACKET_MOST) {
		end->lost = true;
		return NULL;
	}
	struct letter *letter = &end->outbox[end->sent++];
	letter->socket = socket;
	memset(&letter->to, 0, sizeof letter->to);
	memcpy(&letter->to, to, address_size(to));
	letter->length = (unsigned int)length;
	return letter;
}

static int on_send(core_node *core, void *user, void *thread, int64_t socket, const struct sockaddr_storage *to,
                   const void *data, unsigned int length, unsigned int ttl) {
	(void)core, (void)thread, (void)ttl;
	struct end *end = user;
	struct letter *letter = room(end, socket, to, length);
	if (!letter) return -1;
	memcpy(letter->bytes, data, length);
	if (end->shortcut) shortcut_sent(NULL, socket, to, letter->bytes, length);
	return 0;
}

/* send_place */
static unsigned char *place(struct underlay *underlay, int64_t socket, const struct sockaddr_storage *to, size_t length) {
	(void)underlay;
	struct letter *letter = room(&behind, socket, to, length);
	return letter ? letter->bytes : NULL;
}

static void deliver(struct end *end, uint64_t nwid, uint64_t source, uint64_t destination, unsigned int type,
                    const void *data, size_t length) {
	if (end->got == FRAMES || length > FRAME_MOST) {
		end->lost = true;
		return;
	}
	struct delivered *frame = &end->frames[end->got++];
	if (only_count) return;
	memset(frame, 0, sizeof *frame);
	*frame = (struct delivered){nwid, source, destination, type, (unsigned int)length, {0}};
	memcpy(frame->bytes, data, length);
}

static void on_frame(core_node *core, void *user, void *thread, uint64_t nwid, void **where, uint64_t source,
                     uint64_t destination, unsigned int type, unsigned int vlan, const void *data, unsigned int length) {
	(void)core, (void)thread;
	struct end *end = user;
	MUST(((struct place *)*where)->end == end && ((struct place *)*where)->nwid == nwid);
	if (end->shortcut) shortcut_delivered(*where, nwid, source, destination, vlan, length);
	deliver(end, nwid, source, destination, type, data, length);
}

static int on_network(core_node *core, void *user, void *thread, uint64_t nwid, void **where, int operation,
                      const struct core_network *config) {
	(void)core, (void)thread;
	bool up = operation == CORE_NET_UP || operation == CORE_NET_UPDATE;
	if (((struct end *)user)->shortcut) shortcut_network_used(nwid, up);
	if (up) ((struct place *)*where)->mac = config->mac;
	return 0;
}

static void on_event(core_node *core, void *user, void *thread, int event, const void *data) {
	(void)core, (void)user, (void)thread, (void)event, (void)data;
}

/* The linker has the cores' calls pass here: what B seals shows its keys. */
void __real_shortcut_sealing(const void *packet, bool encrypt, const void *aes);
void __wrap_shortcut_sealing(const void *packet, bool encrypt, const void *aes);
void __wrap_shortcut_sealing(const void *packet, bool encrypt, const void *aes) {
	const unsigned char *bytes = packet;
	if (!has_keys && encrypt && aes && number_at(bytes + AT_SOURCE, 5) == peer.node &&
	    number_at(bytes + AT_DESTINATION, 5) == alone.node) {
		memcpy(keys, aes, sizeof keys);
		has_keys = true;
	}
	__real_shortcut_sealing(packet, encrypt, aes);
}

/* A process has one budget for each node, but here are two of the same: what the first used up would be refused the second.
 */
bool __wrap_verbs_in_budget(const unsigned char *packet, unsigned int length, enum verbs what, bool sealed, int64_t at);
bool __wrap_verbs_in_budget(const unsigned char *packet, unsigned int length, enum verbs what, bool sealed, int64_t at) {
	(void)packet, (void)length, (void)what, (void)sealed, (void)at;
	return true;
}

/* -- feeding them */

static void feed(struct end *end, int64_t socket, const struct sockaddr_storage *from, const unsigned char *packet,
                 size_t length) {
	if (!end->shortcut) {
		ZT_Node_processWirePacket(end->core, NULL, now, socket, from, packet, (unsigned int)length, NULL);
		return;
	}
	static unsigned char copy[PACKET_MOST];
	struct shortcut_frame frame;
	memcpy(copy, packet, length);
	if (shortcut_in(socket, from, copy, length, &frame)) {
		const struct place *where = frame.which;
		MUST(where->end == end);
		by_shortcut_in++;
		deliver(end, where->nwid, number_at(frame.bytes + 6, 6), number_at(frame.bytes, 6),
		        (unsigned int)number_at(frame.bytes + 12, 2), frame.bytes + 14, frame.length - 14);
		return;
	}
	MUST(memcmp(copy, packet, length) == 0);
	asked++;
	shortcut_ask_in(end->core, now, socket, from, copy, length);
	MUST(memcmp(copy, packet, length) == 0);
}

static void send_frame(struct end *end, uint64_t nwid, const unsigned char *frame, size_t length) {
	if (end->shortcut && shortcut_out(nwid, frame, length, place)) {
		by_shortcut_out++;
	} else if (end->shortcut) {
		asked_out++;
		shortcut_ask_out(end->core, now, nwid, frame, length);
	} else {
		ZT_Node_processVirtualNetworkFrame(end->core, NULL, now, nwid, number_at(frame + 6, 6), number_at(frame, 6),
		                                   (unsigned int)number_at(frame + 12, 2), 0, frame + 14,
		                                   (unsigned int)(length - 14), NULL);
	}
}

static void background(struct end *end) {
	if (end->deadline > now) return;
	if (end->shortcut) shortcut_change_begin();
	MUST(ZT_Node_processBackgroundTasks(end->core, NULL, now, &end->deadline) == CORE_OK);
	if (end->shortcut) shortcut_change_end();
}

static void empty(struct end *end) {
	end->sent = end->got = 0;
	end->lost = false;
}

/* -- comparing them */

/* On the peer's own path: whether another is looked at depends on where the core's objects lie in memory
 * (Peer::_lastTriedPath compares addresses of paths, also of those that are gone). */
static const struct letter *next_letter(const struct end *end, unsigned int *at) {
	while (*at < end->sent) {
		const struct letter *letter = &end->outbox[(*at)++];
		if (letter->socket == 1 && memcmp(&letter->to, &peer.address, sizeof letter->to) == 0) return letter;
	}
	return NULL;
}

static void same_letters(void) {
	unsigned int at_a = 0, at_b = 0;
	for (;;) {
		const struct letter *a = next_letter(&alone, &at_a), *b = next_letter(&behind, &at_b);
		MUST(!a == !b);
		if (!a || !b) break;
		MUST(a->length == b->length);
		if (a->length > AT_FLAGS && a->bytes[AT_SOURCE] != 0xff)
			MUST(memcmp(a->bytes + AT_DESTINATION, b->bytes + AT_DESTINATION, AT_FLAGS + 1 - AT_DESTINATION) == 0);
	}
}

static void same_frames(struct end *a, unsigned int from_a, struct end *b, unsigned int from_b) {
	MUST(a->got - from_a == b->got - from_b);
	for (; from_a < a->got; from_a++, from_b++)
		MUST(memcmp(&a->frames[from_a], &b->frames[from_b], sizeof a->frames[0]) == 0);
}

static void same_peers(void) {
	struct core_peers *a = ZT_Node_peers(alone.core), *b = ZT_Node_peers(behind.core);
	MUST(a && b && a->count == b->count);
	for (unsigned long i = 0; i < a->count; i++) {
		const struct core_peer *x = &a->peers[i], *y = &b->peers[i];
		MUST(x->address == y->address && x->path_count == y->path_count);
		for (unsigned int k = 0; k < x->path_count; k++) {
			const struct core_path *p = &x->paths[k], *q = &y->paths[k];
			MUST(same_address(&p->address, &q->address) && p->last_send == q->last_send &&
			     p->last_receive == q->last_receive);
			MUST(p->expired == q->expired && p->preferred == q->preferred);
		}
	}
	ZT_Node_freeQueryResult(alone.core, a);
	ZT_Node_freeQueryResult(behind.core, b);
}

/* What both have sent arrives at B, and what B says of each is the same. */
static void post(void) {
	same_letters();
	unsigned int first = peer.got;
	for (unsigned int i = 0; i < alone.sent; i++)
		if (same_address(&alone.outbox[i].to, &peer.address))
			feed(&peer, 1, &alone.address, alone.outbox[i].bytes, alone.outbox[i].length);
	unsigned int middle = peer.got;
	for (unsigned int i = 0; i < behind.sent; i++)
		if (same_address(&behind.outbox[i].to, &peer.address))
			feed(&peer, 1, &alone.address, behind.outbox[i].bytes, behind.outbox[i].length);
	unsigned int count = middle - first;
	MUST(peer.lost || peer.got - middle == count);
	for (unsigned int i = 0; !peer.lost && i < count; i++)
		MUST(memcmp(&peer.frames[first + i], &peer.frames[middle + i], sizeof peer.frames[0]) == 0);
	empty(&peer);
	alone.sent = behind.sent = 0;
}

static void feed_both(int64_t socket, const struct sockaddr_storage *from, const unsigned char *packet, size_t length) {
	feed(&alone, socket, from, packet, length);
	feed(&behind, socket, from, packet, length);
	MUST(alone.lost == behind.lost);
	same_frames(&alone, 0, &behind, 0);
	same_letters();
	alone.got = behind.got = 0;
}

/* -- the start */

static void start(struct end *end) {
	static const struct core_callbacks callbacks = {0, on_put, on_get, on_send, on_frame, on_network, on_event, NULL, NULL};
	MUST(ZT_Node_new(&end->core, end, NULL, &callbacks, now) == CORE_OK);
	end->node = ZT_Node_address(end->core);
}

static size_t put_identity(unsigned char *at, const char *public) {
	size_t length = 0;
	uint64_t byte;
	for (const char *from = public; from < public + 10; from += 2)
		MUST(parse_hex(from, 2, &byte)), at[length++] = (unsigned char)byte;
	at[length++] = 0;
	for (const char *from = public + 13; from < public + 141; from += 2)
		MUST(parse_hex(from, 2, &byte)), at[length++] = (unsigned char)byte;
	at[length++] = 0;
	return length;
}

static void make_planet(void) {
	size_t size = 1 + 8 + 8 + 64 + 96;
	planet[0] = 1, planet[8] = 77, planet[16] = 1;
	memset(planet + 17, 5, 64);
	planet[size++] = 2;
	for (int i = 0; i < 2; i++) {
		size += put_identity(planet + size, publics[i]);
		const struct sockaddr_in *address = (const struct sockaddr_in *)(i ? &peer.address : &alone.address);
		planet[size++] = 1, planet[size++] = 4;
		memcpy(planet + size, &address->sin_addr, 4), memcpy(planet + size + 4, &address->sin_port, 2), size += 6;
	}
	planet_size = size;
}

static size_t put_value(char *at, const unsigned char *bytes, size_t length) {
	size_t count = 0;
	for (size_t i = 0; i < length; i++) {
		const char *escape = bytes[i] == 0      ? "\\0"
		                     : bytes[i] == 10   ? "\\n"
		                     : bytes[i] == 13   ? "\\r"
		                     : bytes[i] == '='  ? "\\e"
		                     : bytes[i] == '\\' ? "\\\\"
		                                        : NULL;
		if (escape) at[count++] = escape[0], at[count++] = escape[1];
		else at[count++] = (char)bytes[i];
	}
	return count;
}

static size_t put_node(unsigned char *at, uint64_t node) {
	for (int i = 0; i < 5; i++) at[i] = (unsigned char)(node >> (32 - 8 * i));
	return 5;
}

/* Rules: 0 both nodes; 1 A alone; 2 what is not IPv4 is dropped; 3 anything, and B is a bridge; 4 as 0, for members with a
 * certificate; 5 both; 6 Central's first ones, what is no IP and no ARP is dropped; 7 UDP is dropped. */
static void configure(int owner, unsigned int which, unsigned int kind) {
	unsigned char rules[64];
	size_t count = 0;
	uint64_t a, b;
	char ten[11] = {0};
	memcpy(ten, publics[0], 10), a = strtoull(ten, NULL, 16);
	memcpy(ten, publics[1], 10), b = strtoull(ten, NULL, 16);
	if (kind == 2) {
		const unsigned char no_ipv4[] = {37 | 0x80, 2, 8, 0, 0, 0};
		memcpy(rules, no_ipv4, sizeof no_ipv4), count = sizeof no_ipv4;
	} else if (kind == 6) {
		const unsigned char no_ip_no_arp[] = {37 | 0x80, 2, 8, 0, 37 | 0x80, 2, 8, 6, 37 | 0x80, 2, 0x86, 0xdd, 0, 0};
		memcpy(rules, no_ip_no_arp, sizeof no_ip_no_arp), count = sizeof no_ip_no_arp;
	} else if (kind == 7) {
		const unsigned char udp[] = {36, 1, 17, 0, 0};
		memcpy(rules, udp, sizeof udp), count = sizeof udp;
	} else if (kind != 3) {
		rules[count++] = 24 | 0x80, rules[count++] = 5, count += put_node(rules + count, a);
		if (kind != 1) rules[count++] = 24 | 0x80, rules[count++] = 5, count += put_node(rules + count, b);
		rules[count++] = 0, rules[count++] = 0;
	}
	rules[count++] = 1, rules[count++] = 0;
	char *at = configs[owner][which];
	memset(at, 0, 512);
	size_t size = (size_t)sprintf(
		at, "v=7\nnwid=%016llx\nts=1\nctmd=6ddd00\nr=1\nid=%.10s\ntt=0000000000\nf=2\nml=20\nt=%d\nn=test\nmtu=7d0\nR=",
		(unsigned long long)NETWORK(which), publics[owner], kind != 4);
	size += put_value(at + size, rules, count);
	if (kind == 3) {
		unsigned char bridge[8] = {0, 0, 2};
		put_node(bridge + 3, b);
		size += (size_t)sprintf(at + size, "\nS=");
		size += put_value(at + size, bridge, sizeof bridge);
	}
	at[size++] = '\n';
	config_sizes[owner][which] = size;
}

static void join(struct end *end, unsigned int which) {
	end->places[which] = (struct place){end, NETWORK(which), end->places[which].mac};
	if (end->shortcut) shortcut_change_begin();
	MUST(ZT_Node_join(end->core, NETWORK(which), &end->places[which], NULL) == CORE_OK);
	if (end->shortcut) shortcut_change_end();
}

static void leave(struct end *end, unsigned int which) {
	if (end->shortcut) shortcut_change_begin();
	ZT_Node_leave(end->core, NETWORK(which), NULL, NULL);
	if (end->shortcut) shortcut_change_end();
}

/* So much later; what is on the way arrives. */
static void pass(int64_t milliseconds) {
	shortcut_forget();
	now += milliseconds;
	background(&alone), background(&behind), background(&peer);
	for (int round = 0; round < 4; round++) {
		static struct letter letters[OUTBOX];
		unsigned int count = peer.sent;
		memcpy(letters, peer.outbox, count * sizeof *letters);
		peer.sent = 0;
		for (unsigned int i = 0; i < count; i++) {
			if (!same_address(&letters[i].to, &alone.address)) continue;
			feed(&alone, 1, &peer.address, letters[i].bytes, letters[i].length);
			feed(&behind, 1, &peer.address, letters[i].bytes, letters[i].length);
		}
		for (int k = 0; k < 2; k++) {
			struct end *end = k ? &behind : &alone;
			for (unsigned int i = 0; i < end->sent; i++)
				if (same_address(&end->outbox[i].to, &peer.address))
					feed(&peer, 1, &alone.address, end->outbox[i].bytes, end->outbox[i].length);
			end->sent = 0;
		}
	}
	empty(&alone), empty(&behind);
	peer.got = 0;
	shortcut_forget();
}

static void twins_begin(void) {
	MUST(decode_works() && armor_works());
	behind.shortcut = true;
	now = now_ms();
	struct end *ends[] = {&alone, &behind, &peer};
	for (int i = 0; i < 3; i++) {
		char text[32];
		snprintf(text, sizeof text, "198.51.100.%d/9993", i == 2 ? 2 : 1);
		MUST(parse_address(text, '/', &ends[i]->address));
		ends[i]->secret = secrets[i == 2], ends[i]->public = publics[i == 2];
	}
	for (int i = 0; i < 3; i += 2) start(ends[i]), ZT_Node_delete(ends[i]->core); /* makes the identity */
	make_planet();
	for (int i = 0; i < 3; i++) start(ends[i]);
	for (unsigned int i = 0; i < NETWORKS; i++) {
		configure(0, i, i), configure(1, i, i == 3 ? 3 : 5);
		if (i < NETWORKS - 1) join(&alone, i), join(&behind, i);
		join(&peer, i);
	}
	for (int i = 0; i < 100; i++) pass(100);
	unsigned char public_key[64], private_key[64];
	uint64_t byte;
	for (int i = 0; i < 64; i++) MUST(parse_hex(publics[0] + 13 + 2 * i, 2, &byte)), public_key[i] = (unsigned char)byte;
	MUST(identity_private_key(secrets[1], private_key));
	core_agree(private_key, public_key, old_key, sizeof old_key);
	MUST(has_keys);
	same_peers();
}

/* -- a batch: packets are made, mixed, and arrive */

enum { HAND = 24 };
static struct letter hand[HAND];
static unsigned int held;

static void take_from_peer(void) {
	for (unsigned int i = 0; i < peer.sent && held < HAND; i++)
		if (same_address(&peer.outbox[i].to, &alone.address)) hand[held++] = peer.outbox[i];
	peer.sent = 0;
}

static void put_mac(unsigned char *at, uint64_t mac) {
	for (int i = 0; i < 6; i++) at[i] = (unsigned char)(mac >> (40 - 8 * i));
}

static size_t make_frame(unsigned char *frame, uint64_t to, uint64_t from) {
	size_t length = 15 + number() % (next() % 8 ? 1380 : 2000);
	put_mac(frame, to), put_mac(frame + 6, from);
	static const unsigned char types[][2] = {{8, 0}, {0x86, 0xdd}, {8, 6}, {0x88, 0xb5}};
	memcpy(frame + 12, types[next() % 4], 2);
	unsigned char seed = next();
	for (size_t i = 14; i < length; i++) frame[i] = (unsigned char)(seed * i + (i >> 3));
	if (frame[12] == 8 && length > 60) frame[23] = seed % 2 ? 17 : 6;
	if (frame[12] == 0x86 && length > 60) frame[20] = (unsigned char[]){6, 17, 58, 44}[seed % 4];
	return length;
}

/* Any content, sealed as B would: mostly a frame. */
static void forge(void) {
	if (held == HAND) return;
	static struct core_packet packet;
	static void (*seal)(struct core_packet *, const void *, bool, const struct siv_key *);
	if (!seal)
		seal = (void (*)(struct core_packet *, const void *, bool, const struct siv_key *))dlsym(RTLD_NEXT, CORE_ARMOR);
	unsigned char how = next();
	packet.length = 28 + number() % (how & 1 ? 40 : 1400);
	unsigned char seed = next();
	for (unsigned int i = 0; i < packet.length; i++) packet.bytes[i] = (unsigned char)(seed * i + (i >> 4) + 1);
	for (int i = 0; i < 8; i++) packet.bytes[i] = next();
	put_node(packet.bytes + AT_DESTINATION, alone.node);
	put_node(packet.bytes + AT_SOURCE, peer.node);
	packet.bytes[AT_FLAGS] = 0;
	static const unsigned char verbs[] = {6,    6, 6, 6,  6,    7,    0x86, 0x46,
	                                      0x26, 0, 8, 14, 0x12, 0x1f, 16,   5}; /* none with a budget (verbs.h) */
	packet.bytes[AT_VERB] = verbs[next() % 16];
	uint64_t nwid = NETWORK(next() % (NETWORKS + 1));
	for (unsigned int i = 0; i < 8 && AT_NETWORK + i < packet.length; i++)
		packet.bytes[AT_NETWORK + i] = (unsigned char)(nwid >> (56 - 8 * i));
	seal(&packet, old_key, true, how & 0xe0 ? keys : NULL);
	struct letter *letter = &hand[held++];
	letter->length = packet.length;
	memcpy(letter->bytes, packet.bytes, packet.length);
}

static void peer_sends(unsigned int which, uint64_t to, uint64_t from) {
	unsigned char frame[FRAME_MOST];
	size_t length = make_frame(frame, to, from);
	send_frame(&peer, NETWORK(which), frame, length);
	take_from_peer();
}

static void spoil(struct letter *letter) {
	switch (next() % 6) {
	case 0:
		letter->bytes[number() % letter->length] ^= (unsigned char)(1 << next() % 8);
		break;
	case 1:
		letter->length = 1 + number() % letter->length;
		break;
	case 2:
		if (letter->length > AT_FLAGS) letter->bytes[AT_FLAGS] ^= (unsigned char)(next() % 8); /* hops: not authenticated */
		break;
	case 3:
		if (letter->length > AT_FLAGS) letter->bytes[AT_FLAGS] = next();
		break;
	case 4:
		if (letter->length > AT_FLAGS) letter->bytes[AT_DESTINATION + next() % 10] ^= (unsigned char)(1 << next() % 8);
		break;
	default:
		if (letter->length + 9 < PACKET_MOST) memset(letter->bytes + letter->length, next(), 9), letter->length += 9;
	}
}

static void arrive(const struct letter *letter, unsigned char how) {
	struct sockaddr_storage from = peer.address;
	int64_t socket = 1;
	if (how == 1) ((struct sockaddr_in *)&from)->sin_port = htons(4242);
	if (how == 2) MUST(parse_address("198.51.100.9/9993", '/', &from));
	if (how == 3) socket = 2;
	if (how == 4) MUST(parse_address("2001:db8::2/9993", '/', &from));
	feed_both(socket, &from, letter->bytes, letter->length);
	post();
}

/* A frame of A's own TAP. */
static void leave_by(unsigned int which, const unsigned char *frame, size_t length) {
	send_frame(&alone, NETWORK(which), frame, length);
	send_frame(&behind, NETWORK(which), frame, length);
	same_frames(&alone, 0, &behind, 0);
	alone.got = behind.got = 0;
	post();
}

static void ours(unsigned int which) {
	unsigned char frame[FRAME_MOST];
	unsigned char how = next();
	uint64_t to = peer.places[which].mac, from = alone.places[which].mac;
	if (how % 16 == 1) to = 0xffffffffffffULL;
	if (how % 16 == 2) to = 0x3333ff000001ULL;
	if (how % 16 == 3) to ^= 0x10;
	if (how % 16 == 4) from ^= 0x10;
	if (how % 16 == 5) to = from;
	size_t length = make_frame(frame, to, from);
	leave_by(which, frame, length);
}

/* The rules of a network become others, or it goes and comes again. */
static void change(unsigned int which, unsigned int kind) {
	changed = true;
	leave(&alone, which), leave(&behind, which);
	configure(0, which, kind);
	if (next() % 4) join(&alone, which), join(&behind, which);
}

static unsigned int usual; /* most of a batch is in this network */
static unsigned int some_network(void) {
	unsigned char choice = next();
	return choice < 176 ? usual : choice % NETWORKS;
}

__attribute__((unused)) static void twins_batch(void) {
	batch_number++;
	unsigned char mood = next();
	usual = mood % 2 ? 0 : 6;
	bool calm = mood & 2; /* nothing but frames of the peer */
	pass(1 + next() % 40);
	held = 0;
	for (int i = next() % HAND; i >= 0; i--) {
		unsigned char choice = calm ? 0 : next();
		unsigned int which = calm ? usual : some_network();
		uint64_t a = alone.places[which].mac, b = peer.places[which].mac;
		if (choice < 150) peer_sends(which, a, b);
		else if (choice < 160) peer_sends(which, 0xffffffffffffULL, b);
		else if (choice < 168) peer_sends(3, a, b ^ 0x77);
		else if (choice < 176) peer_sends(which, a ^ 1, b);
		else if (choice < 230) forge();
		else if (held) spoil(&hand[next() % held]);
	}
	for (unsigned int count = held + next() % 8; count && held; count--) {
		unsigned char choice = next();
		unsigned int at = choice < 200 ? held - count % held - 1 : next() % held; /* in order; some twice, some never */
		if (choice % 8 == 7) ours(some_network() % (NETWORKS - 1));
		if (choice == 99) shortcut_forget();
		if (choice == 98) change(next() % 3, next() % 8);
		if (choice == 97) shortcut_change_begin(), shortcut_change_end();
		arrive(&hand[at], choice >= 245 ? next() % 5 : 0);
	}
	for (int i = next() % 12; i > 0; i--) ours(calm ? usual : some_network() % (NETWORKS - 1));
	same_peers();
}

/* The networks as they were. */
__attribute__((unused)) static void twins_restore(void) {
	if (!changed) return;
	changed = false;
	for (unsigned int i = 0; i < 3; i++) {
		leave(&alone, i), leave(&behind, i);
		configure(0, i, i);
		join(&alone, i), join(&behind, i);
	}
	pass(20);
}

#endif
