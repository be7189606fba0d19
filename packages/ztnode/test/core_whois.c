/* An answer to WHOIS that comes in two pieces, or that waited in the receive queue: it has the core look at all that waits
 * there, while it holds the lock of this very packet. Two real cores; C is somebody else's moon. */
#include "pair.h"

#include "armor.h"
#include "identity.h"

enum { DESTINATION = 8, SOURCE = 13, FLAGS = 18, VERB = 27, PIECE = 60, MOON = 0x99 };
enum { FRAGMENTED = 0x40, VERB_OK = 3, VERB_WHOIS = 4, VERB_FRAME = 6 };

static void put_node(unsigned char *at, const char *public) {
	uint64_t byte;
	for (int i = 0; i < 5; i++) {
		char two[3] = {public[2 * i], public[2 * i + 1], 0};
		assert(parse_hex(two, 2, &byte));
		at[i] = (unsigned char)byte;
	}
}

static struct core_packet packet;

static void begin(const struct end *a, const struct end *from, unsigned char flags, unsigned char verb) {
	static unsigned char number;
	memset(packet.bytes, 0, sizeof packet.bytes);
	memset(packet.bytes, ++number, 8);
	put_node(packet.bytes + DESTINATION, a->public), put_node(packet.bytes + SOURCE, from->public);
	packet.bytes[FLAGS] = flags, packet.bytes[VERB] = verb;
	packet.length = VERB + 1;
}

static void put_number(uint64_t number, int bytes) {
	while (bytes--) packet.bytes[packet.length++] = (unsigned char)(number >> 8 * bytes);
}

static void seal(const struct end *a, const struct end *from) {
	unsigned char public_key[64], private_key[64], key[32], own[80];
	put_identity(own, a->public);
	memcpy(public_key, own + 6, sizeof public_key);
	assert(identity_private_key(from->secret, private_key));
	core_agree(private_key, public_key, key, sizeof key);
	armor_seal(&packet, key, true, NULL);
}

/* What `from` says to A of a node's identity, in answer to the last HELLO of A. */
static void make_answer(const struct end *a, const struct end *from, const struct end *about, unsigned char flags) {
	begin(a, from, flags, VERB_OK);
	put_number(VERB_WHOIS, 1);
	put_number(a->last_hello, 8);
	packet.length += (unsigned int)put_identity(packet.bytes + packet.length, about->public);
	seal(a, from);
}

static void make_frame(const struct end *a, const struct end *from) {
	begin(a, from, 0, VERB_FRAME);
	put_number(NETWORK, 8);
	put_number(0x0800, 2);
	packet.length += 40;
	seal(a, from);
}

static void receive(const struct end *a, const struct end *from, const void *bytes, unsigned int length) {
	ZT_Node_processWirePacket(a->core, NULL, wall(), 1, &from->address, bytes, length, NULL);
}

static void receive_whole(const struct end *a, const struct end *from) { receive(a, from, packet.bytes, packet.length); }

static void receive_pieces(const struct end *a, const struct end *from, bool head_first) {
	unsigned char piece[200];
	memcpy(piece, packet.bytes, SOURCE);
	piece[13] = 0xff, piece[14] = 0x21, piece[15] = 0; /* 1 of 2 */
	memcpy(piece + 16, packet.bytes + PIECE, packet.length - PIECE);
	if (head_first) receive(a, from, packet.bytes, PIECE);
	receive(a, from, piece, 16 + packet.length - PIECE);
	if (!head_first) receive(a, from, packet.bytes, PIECE);
}

static void make_moon(struct end *a, const struct end *root) {
	size_t size = 1 + 8 + 8 + 64 + 96;
	a->moon[0] = 127, a->moon[8] = MOON, a->moon[16] = 1;
	a->moon[size++] = 1;
	size += put_identity(a->moon + size, root->public);
	a->moon_size = size + 1 + 2; /* no addresses, nothing attached */
}

static void make_stranger(struct end *end) {
	start(end); /* makes the identity */
	ZT_Node_delete(end->core);
	assert(parse_address("203.0.113.7/9993", '/', &end->address));
}

int main(void) {
	static struct end ends[2], c, d, e, moon;
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works() && armor_works());
	make_stranger(&c), make_stranger(&d), make_stranger(&e), make_stranger(&moon);
	pair_begin(ends);
	configure(a, true, 1400), configure(b, true, 1400);
	work(ends, 700);

	/* A frame of a node that is not known waits until B has said who that is. */
	alarm(10);
	make_frame(a, &c), receive_whole(a, &c);
	assert(a->frames == 0);
	make_answer(a, b, &c, 0), receive_whole(a, b);
	assert(a->frames == 1);

	make_frame(a, &d), receive_whole(a, &d);
	make_answer(a, b, &d, FRAGMENTED), receive_pieces(a, b, true);
	make_frame(a, &e), receive_whole(a, &e);
	make_answer(a, b, &e, FRAGMENTED), receive_pieces(a, b, false);
	work(ends, 1300); /* two looks at what waits */
	assert(a->frames == 3);

	/* An answer that waits itself, until its sender is known and a root. */
	make_answer(a, &moon, &c, 0), receive_whole(a, &moon);
	make_moon(a, &moon);
	ZT_Node_orbit(a->core, NULL, MOON, 0);
	work(ends, 1300);

	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 100);
	assert(a->frames == 4);
	puts("core_whois: answers in pieces and late ones are taken");
	pair_end(ends);
	return 0;
}
