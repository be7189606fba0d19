/* An answer to WHOIS that comes in two pieces, or that waited in the receive queue: it has the core look at all that waits
 * there, while it holds the lock of this very packet. Two real cores; C is somebody else's moon. */
#include "forge.h"

enum { FRAGMENTED = 0x40, VERB_FRAME = 6, PIECE = 60 };

/* What `from` says to A of a node's identity, in answer to the last HELLO of A. */
static void make_answer(const struct end *a, const struct end *from, const struct end *about, unsigned char flags) {
	begin(a, from, flags, VERB_OK);
	append(VERB_WHOIS, 1);
	append(a->last_hello, 8);
	packet.length += (unsigned int)put_identity(packet.bytes + packet.length, about->public);
	seal(a, from);
}

static void make_frame(const struct end *a, const struct end *from) {
	begin(a, from, 0, VERB_FRAME);
	append(NETWORK, 8);
	append(0x0800, 2);
	packet.length += 40;
	seal(a, from);
}

static void receive_pieces(const struct end *a, const struct end *from, bool head_first) {
	unsigned char piece[200];
	memcpy(piece, packet.bytes, SOURCE);
	piece[13] = 0xff, piece[14] = 0x21, piece[15] = 0; /* 1 of 2 */
	memcpy(piece + 16, packet.bytes + PIECE, packet.length - PIECE);
	if (head_first) receive(a, from, packet.bytes, PIECE);
	receive(a, from, piece, 16 + packet.length - PIECE);
	if (!head_first) receive(a, from, packet.bytes, PIECE);
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
