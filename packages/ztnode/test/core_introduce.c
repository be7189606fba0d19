/* A packet that claims to be from B and for B, and that anybody can send: A, which relays for B, introduces B to itself,
 * for which the core alone takes one lock twice. */
#include "pair.h"

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	pair_begin(ends);
	configure(a, true, 1400), configure(b, true, 1400);
	work(ends, 700);

	unsigned char packet[28] = {0};
	uint64_t node = ZT_Node_address(b->core);
	for (int i = 0; i < 5; i++) packet[8 + i] = packet[13 + i] = (unsigned char)(node >> (32 - 8 * i));
	struct sockaddr_storage anybody;
	assert(parse_address("203.0.113.9/9993", '/', &anybody));
	alarm(5);
	ZT_Node_processWirePacket(a->core, NULL, core_time(), 1, &anybody, packet, sizeof packet, NULL);
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 100);
	assert(a->frames == 1);
	puts("core_introduce: a peer is not introduced to itself");
	pair_end(ends);
	return 0;
}
