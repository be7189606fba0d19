/* What else a hostile remote may try, and who has no key at all, with real cores: on a link whose gate is open each has its
 * effect, on a closed one none.
 *
 * The remote is the root of a moon. It names other addresses of this node in turns, which makes paths to others dead. It
 * has a newer planet, and says that it is to be found elsewhere. Nobody is searched for by it. Without a key, a packet says
 * that it came by a trusted path of number 0. */
#include "forge.h"

#include "asked.h"
#include "closed.h"

#include <malloc.h>

enum { VERB_HELLO = 1, VERB_FRAME = 6, VERB_GATHER = 13, VERB_PUSH_DIRECT_PATHS = 16, MTU = 1400, HELLOS = 200 };

/* -- addresses of ours */

static void hello(struct end *a, const struct end *from, unsigned int seen_at) {
	static uint64_t time = 1700000000000;
	begin(a, from, 0, VERB_HELLO);
	append(10, 1), append(1, 1), append(8, 1), append(4, 2), append(++time, 8);
	packet.length += (unsigned int)put_identity(packet.bytes + packet.length, from->public);
	append(4, 1), append(0xcb007100 + seen_at, 4), append(9993, 2), append(1, 8), append(1, 8);
	seal_as(a, from, false);
	receive_whole(a, from);
}

static bool has_path(struct end *a, const struct end *b) {
	struct core_peers *list = ZT_Node_peers(a->core);
	bool found = false;
	for (unsigned long i = 0; i < list->count; i++) {
		char text[11];
		snprintf(text, sizeof text, "%010llx", (unsigned long long)list->peers[i].address);
		if (strncmp(text, b->public, 10) != 0) continue;
		for (unsigned int k = 0; k < list->peers[i].path_count; k++) found |= list->peers[i].paths[k].preferred;
	}
	ZT_Node_freeQueryResult(a->core, list);
	return found;
}

/* In how many looks after a HELLO there is a path to the other end. */
static int looks_with_a_path(struct end *ends, const struct end *from) {
	int found = 0;
	hello(&ends[0], from, 1);
	for (unsigned int i = 0; i < HELLOS; i++) {
		hello(&ends[0], from, 2 + i % 2);
		work(ends, 2); /* the other end answers what was sent for it */
		found += has_path(&ends[0], &ends[1]);
	}
	return found;
}

/* -- members of a group */

static void broadcast(struct end *ends, int count) {
	const unsigned char frame[100] = {0x45};
	for (int i = 0; i < count; i++) {
		send_frame(&ends[0], ends[0].mac, 0xffffffffffff, frame, sizeof frame);
		if (i % 10 == 9) work(ends, 100);
	}
}

/* As if it had been asked for members with a packet of that number. */
static void ask(const struct end *remote, uint64_t number) {
	unsigned char question[VERB + 9] = {[VERB] = VERB_GATHER};
	for (int i = 0; i < 8; i++) question[VERB + 1 + i] = (unsigned char)(NETWORK >> 8 * (7 - i));
	for (int i = 0; i < 8; i++) question[i] = (unsigned char)(number >> 8 * (7 - i));
	put_node(question + DESTINATION, remote->public);
	asked_sending(question, sizeof question);
}

/* How many of 50 broadcasts the other end gets after the remote has named members that it has made up. */
static int broadcasts(struct end *ends, const struct end *from, bool asked) {
	struct end *a = &ends[0], *b = &ends[1];
	b->frames = 0;
	broadcast(ends, 50);
	assert(b->frames == 50);
	if (asked) ask(from, a->last_hello);
	begin(a, from, 0, VERB_OK);
	append(VERB_GATHER, 1), append(a->last_hello, 8), append(NETWORK, 8), append(0xffffffffffff, 6);
	append(0, 4), append(1000, 4), append(1000, 2);
	for (uint64_t i = 0; i < 1000; i++) append(0xf000000000 - i, 5);
	seal(a, from), receive_whole(a, from);
	b->frames = 0;
	broadcast(ends, 50);
	return b->frames;
}

/* -- worlds, and where it is */

static struct keys keys;
enum { TIME = 16, UPDATES = 17, SIGNATURE = 81, ROOTS = 177 };

static void have_planet_with_a_key(struct end *ends) {
	for (size_t i = 0; i < sizeof keys.private; i++) keys.private[i] = (unsigned char)(5 * i + 1);
	core_signing(&keys);
	for (int i = 0; i < 2; i++) memcpy(ends[i].planet + UPDATES, keys.public, sizeof keys.public);
}

static bool has_root(struct end *a, uint64_t node) {
	struct core_peers *list = ZT_Node_peers(a->core);
	bool found = false;
	for (unsigned long i = 0; i < list->count; i++)
		found |= list->peers[i].address == node && list->peers[i].role == CORE_ROLE_PLANET;
	ZT_Node_freeQueryResult(a->core, list);
	return found;
}

/* A newer planet: the same roots, and the remote as one more. */
static bool planet_is_taken(struct end *a, const struct end *from) {
	unsigned char planet[700], message[700], signature[96];
	memcpy(planet, a->planet, a->planet_size);
	size_t size = a->planet_size;
	planet[TIME]++, planet[ROOTS]++;
	size += put_identity(planet + size, from->public);
	planet[size++] = 0;
	memset(message, 0x7f, 8);
	memcpy(message + 8, planet, SIGNATURE);
	memcpy(message + 8 + SIGNATURE, planet + ROOTS, size - ROOTS);
	size_t length = 8 + SIGNATURE + size - ROOTS;
	memset(message + length, 0xf7, 8);
	core_sign(keys.private, keys.public, message, (unsigned int)length + 8, signature);
	memcpy(planet + SIGNATURE, signature, sizeof signature);
	begin(a, from, 0, VERB_OK);
	append(VERB_HELLO, 1), append(a->last_hello, 8), append((uint64_t)core_time(), 8);
	append(10, 1), append(1, 1), append(8, 1), append(4, 2), append(0, 1), append(size, 2);
	memcpy(packet.bytes + packet.length, planet, size), packet.length += (unsigned int)size;
	seal(a, from), receive_whole(a, from);
	return has_root(a, number_at(planet + a->planet_size, 5));
}

static bool is_redirected(struct end *a, const struct end *from) {
	enum { REDIRECT = 2 };
	a->elsewhere = 0;
	begin(a, from, 0, VERB_PUSH_DIRECT_PATHS);
	append(1, 2), append(REDIRECT, 1), append(0, 2), append(4, 1), append(6, 1);
	append(0xcb007163, 4), append(ELSEWHERE, 2);
	seal(a, from), receive_whole(a, from);
	return a->elsewhere > 0;
}

/* -- no key */

static int without_a_key(struct end *a, const struct end *b, uint64_t path) {
	a->frames = 0;
	begin(a, b, 2 << 3, VERB_FRAME);
	for (int i = 0; i < 8; i++) packet.bytes[19 + i] = (unsigned char)(path >> 8 * (7 - i));
	append(NETWORK, 8), append(0x0800, 2), append(0x4500002800000000, 8);
	for (int i = 0; i < 4; i++) append(0, 8);
	receive_whole(a, b);
	return a->frames;
}

static void have_physical(struct end *a, uint64_t path) {
	struct sockaddr_storage network;
	assert(parse_address("198.51.100.0/24", '/', &network)); /* the port holds the length; that of the ends' addresses */
	struct core_path_config config = {path, 1400};
	ZT_Node_setPhysicalPathConfiguration(a->core, &network, &config);
}

static void like(struct end *a, const struct end *from, unsigned char path) {
	static uint64_t group;
	begin(a, from, 2 << 3, 9);
	packet.bytes[26] = path;
	while (packet.length < 1400) append(NETWORK, 8), append(++group, 6), append(0, 4);
	receive_whole(a, from);
}

int main(void) {
	static struct end ends[2], remote;
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works() && closed_works());
	make_stranger(&remote);
	pair_begin(ends);
	have_planet_with_a_key(ends);
	for (int closed = 0; closed < 2; closed++) {
		if (closed) decode_close();
		decode_trust(NULL, 0);
		for (struct end *end = ends; end < ends + 2; end++) {
			if (end->core) ZT_Node_delete(end->core);
			end->deadline = 0;
			start(end);
			configure(end, true, MTU);
		}
		make_moon(a, &remote);
		ZT_Node_orbit(a->core, NULL, MOON, 0);
		work(ends, 1500);
		bool there = has_path(a, b);
		assert(there);
		ZT_Node_multicastSubscribe(b->core, NULL, NETWORK, 0x01005e000005, 0);
		a->searches = 0;
		work(ends, 6000); /* it names its groups */
		printf("core_closed: %s: %d searches for the controller in 6 s\n", closed ? "closed" : "open", a->searches);
		assert(closed ? a->searches == 0 : a->searches > 3);
		int unasked = broadcasts(ends, &remote, false), heard = broadcasts(ends, &remote, true);
		printf("core_closed: %s: %d and %d of 50 broadcasts\n", closed ? "closed" : "open", unasked, heard);
		assert(unasked == 50 && (closed ? heard == 50 : heard < 25));
		work(ends, 3000);
		int paths = looks_with_a_path(ends, &remote);
		bool taken = planet_is_taken(a, &remote), redirected = is_redirected(a, &remote);
		assert(taken == !closed && redirected == !closed);
		printf("core_closed: %s: a path in %d of %d looks\n", closed ? "closed" : "open", paths, HELLOS);
		assert(closed ? paths == HELLOS : paths < HELLOS / 2);
		/* at any gate */
		int of_none = without_a_key(a, b, 0) + without_a_key(a, b, 7);
		have_physical(a, 0);
		int of_mtu = without_a_key(a, b, 0);
		have_physical(a, 7);
		int of_other = without_a_key(a, b, 7); /* of a prefix that the core has, but the configuration not any more */
		decode_trust((const uint64_t[]){9, 7}, 2);
		int of_seven = without_a_key(a, b, 7), of_eight = without_a_key(a, b, 8);
		assert(of_none == 0 && of_mtu == 0 && of_other == 0 && of_seven == 1 &&
		       of_eight == 0);                       /* what was configured works */
		for (int i = 0; i < 500; i++) like(a, b, 8); /* of a number that is not, which uses up nothing of 7 */
		size_t before = mallinfo2().uordblks;
		for (int i = 0; i < 500; i++) like(a, b, 7);
		size_t groups = mallinfo2().uordblks - before;
		printf("core_closed: %zu kB of groups by a trusted path\n", groups >> 10);
		/* the same sender at both gates: what has come back to it since */
		assert(groups < 2 << 20 && groups > (closed ? 20 << 10 : 300 << 10));
		const unsigned char frame[40] = {0x45, 0, 0, 40};
		a->frames = 0;
		send_frame(b, b->mac, a->mac, frame, sizeof frame);
		work(ends, 100);
		assert(a->frames == 1); /* and it goes on */
	}
	pair_end(ends);
	return 0;
}
