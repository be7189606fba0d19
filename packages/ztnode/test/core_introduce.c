/* A packet that claims to be from B and for B, and that anybody can send: A, which relays for B, introduces B to itself,
 * for which the core alone takes one lock twice. And packets for B of ever new nodes, each of which the core alone keeps.
 */
#include "pair.h"

#include <malloc.h>

enum { NODES = 20000 };

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
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < NODES; i++) {
		for (int k = 0; k < 5; k++) packet[13 + k] = (unsigned char)((0x1000000000ULL + (uint64_t)i) >> (32 - 8 * k));
		packet[18] = 0; /* hops */
		ZT_Node_processWirePacket(a->core, NULL, core_time(), 1, &anybody, packet, sizeof packet, NULL);
		wire_begin = wire_end;
	}
	size_t after = mallinfo2().uordblks, kept = after > before ? after - before : 0;
	assert(kept < 100 << 10);
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 100);
	assert(a->frames == 1);
	printf("core_introduce: a peer is not introduced to itself; %zu kB of %d sources\n", kept >> 10, NODES);
	pair_end(ends);
	return 0;
}
