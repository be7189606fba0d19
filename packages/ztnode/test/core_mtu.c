/* Frames of the largest MTU that a network may have arrive, and no larger ones: two real cores. */
#include "pair.h"

#include "network.h"

#define GROUP 0x01005e010203ULL
enum { MTU_WANTED = 10000, MULTICAST_HEAD = 15 /* by which the head of a multicast frame is longer */ };

/* How many of two incompressible frames arrive at A: one of `length` bytes for A alone, one of `group` bytes for a group.
 */
static int delivered(struct end *ends, unsigned int length, unsigned int group) {
	static unsigned char frame[MTU_WANTED];
	struct end *a = &ends[0], *b = &ends[1];
	uint32_t state = 1;
	for (size_t i = 0; i < sizeof frame; i++) frame[i] = (unsigned char)((state = state * 1664525 + 1013904223) >> 24);
	a->frames = 0;
	send_frame(b, b->mac, a->mac, frame, length);
	send_frame(b, b->mac, GROUP, frame, group);
	work(ends, 100);
	return a->frames;
}

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	pair_begin(ends);
	configure(a, true, MTU_WANTED), configure(b, true, MTU_WANTED);
	work(ends, 700);
	ZT_Node_multicastSubscribe(a->core, NULL, NETWORK, GROUP, 0);
	work(ends, 700);
	int at_most = delivered(ends, NETWORK_MTU_MOST, NETWORK_MTU_MOST - MULTICAST_HEAD);
	int more = delivered(ends, NETWORK_MTU_MOST + 1, NETWORK_MTU_MOST - MULTICAST_HEAD + 1);
	printf("core_mtu: %d of 2 frames of %d bytes delivered, %d of larger ones\n", at_most, NETWORK_MTU_MOST, more);
	assert(at_most == 2 && more == 0);
	pair_end(ends);
	return 0;
}
