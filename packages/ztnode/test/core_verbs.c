/* A hostile remote to which the core listens: its node is the root of a moon, as in a controller-free link.
 *
 * Real cores. The remote tells of nodes that it makes up, one of them the network's controller, sends a configuration of
 * the network that this one has signed, and subscribes to multicast groups without end, which is limited at any gate. A
 * core whose gate is open shows that each of the others has its effect; one whose gate is closed does nothing of it and
 * goes on. */
#include "forge.h"

#include <malloc.h>

enum { VERB_LIKE = 9, VERB_CONFIG = 12, MTU = 1400, OTHER_MTU = 1500, LIKES = 1000, NODES = 50 };

static void put_bytes(const void *bytes, size_t length) {
	memcpy(packet.bytes + packet.length, bytes, length);
	packet.length += (unsigned int)length;
}

static void tell_of(struct end *a, const struct end *from, uint64_t node, const unsigned char key[64], uint64_t asked) {
	begin(a, from, 0, VERB_OK);
	append(VERB_WHOIS, 1), append(asked, 8);
	append(node, 5), append(0, 1), put_bytes(key, 64), append(0, 1);
	seal(a, from);
	receive_whole(a, from);
}

static void configure_from_afar(struct end *a, const struct end *from, const struct keys *keys) {
	static uint64_t update = 1000;
	char text[400];
	int length = snprintf(text, sizeof text,
	                      "v=7\nnwid=%016llx\nts=9\nctmd=6ddd00\nr=9\nid=%.10s\nf=2\nml=20\nt=1\nn=other\nmtu=%x\n",
	                      NETWORK, a->public, OTHER_MTU);
	begin(a, from, 0, VERB_CONFIG);
	unsigned int begun = packet.length;
	append(NETWORK, 8), append((uint64_t)length, 2), put_bytes(text, (size_t)length);
	append(0, 1), append(++update, 8), append((uint64_t)length, 4), append(0, 4);
	unsigned char signature[96];
	core_sign(keys->private, keys->public, packet.bytes + begun, packet.length - begun, signature);
	append(1, 1), append(sizeof signature, 2), put_bytes(signature, sizeof signature);
	seal(a, from);
	receive_whole(a, from);
}

static void subscribe(struct end *a, const struct end *from) {
	static uint64_t group;
	for (int i = 0; i < LIKES; i++) {
		begin(a, from, 0, VERB_LIKE);
		while (packet.length < 1400) append(NETWORK, 8), append(++group, 6), append(0, 4);
		seal(a, from);
		receive_whole(a, from);
	}
}

static unsigned int mtu(struct end *a) {
	struct core_networks *networks = ZT_Node_networks(a->core);
	unsigned int found = networks->networks[0].mtu;
	ZT_Node_freeQueryResult(a->core, networks);
	return found;
}

static unsigned long peers(struct end *a) {
	struct core_peers *known = ZT_Node_peers(a->core);
	unsigned long found = known->count;
	ZT_Node_freeQueryResult(a->core, known);
	return found;
}

struct effects {
	unsigned int mtu;
	unsigned long peers;
	size_t bytes;
};

static struct effects attacked(struct end *ends, const struct end *remote, uint64_t asked) {
	struct end *a = &ends[0];
	struct keys keys;
	for (size_t i = 0; i < sizeof keys.private; i++) keys.private[i] = (unsigned char)(7 * i + 3);
	core_agreeing(&keys), core_signing(&keys);
	struct effects found = {.peers = peers(a)};
	tell_of(a, remote, NETWORK >> 24, keys.public, asked);
	configure_from_afar(a, remote, &keys);
	found.mtu = mtu(a);
	for (uint64_t i = 0; i < NODES; i++) tell_of(a, remote, 0x1234500000 + i, keys.public, asked);
	found.peers = peers(a) - found.peers;
	size_t before = mallinfo2().uordblks;
	subscribe(a, remote);
	found.bytes = mallinfo2().uordblks - before;
	printf("core_verbs: MTU %u, %lu more peers, %zu kB of groups\n", found.mtu, found.peers, found.bytes >> 10);
	return found;
}

static void restart(struct end *ends, const struct end *remote) {
	for (struct end *end = ends; end < ends + 2; end++) {
		if (end->core) ZT_Node_delete(end->core);
		end->deadline = 0;
		start(end);
		configure(end, true, MTU);
	}
	make_moon(&ends[0], remote);
	ZT_Node_orbit(ends[0].core, NULL, MOON, 0);
	ends[0].frames = 0;
	work(ends, 700);
}

static void carry(struct end *ends) {
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(&ends[1], ends[1].mac, ends[0].mac, frame, sizeof frame);
	work(ends, 100);
	assert(ends[0].frames == 1);
}

int main(void) {
	static struct end ends[2], remote;
	make_stranger(&remote);
	pair_begin(ends);
	restart(ends, &remote);
	struct effects found = attacked(ends, &remote, ends[0].last_hello);
	assert(found.mtu == OTHER_MTU && found.peers == NODES + 1 && found.bytes < 2 << 20);

	/* An answer to what was never asked, at any gate. */
	restart(ends, &remote);
	found = attacked(ends, &remote, 0);
	assert(found.mtu == MTU && found.peers == 0);

	decode_close();
	restart(ends, &remote);
	carry(ends);
	found = attacked(ends, &remote, ends[0].last_hello);
	assert(found.mtu == MTU && found.peers == 0 && found.bytes < 2 << 20);
	ends[0].frames = 0;
	carry(ends);
	pair_end(ends);
	return 0;
}
