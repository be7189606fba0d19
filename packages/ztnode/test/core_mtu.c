/* Frames of the largest MTU that a network may have arrive, whatever the core puts before them: two real cores. */
#include "pair.h"

#include "network.h"

#define GROUP 0x01005e010203ULL
enum { MTU_WANTED = 10000 };

/* How many of two incompressible frames of this size arrive at A: one for A alone, one for a group. */
static int delivered(struct end *ends, unsigned int length) {
	static unsigned char frame[MTU_WANTED];
	struct end *a = &ends[0], *b = &ends[1];
	uint32_t state = 1;
	for (size_t i = 0; i < sizeof frame; i++) frame[i] = (unsigned char)((state = state * 1664525 + 1013904223) >> 24);
	a->frames = 0;
	send_frame(b, b->mac, a->mac, frame, length);
	send_frame(b, b->mac, GROUP, frame, length);
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
	int at_most = delivered(ends, NETWORK_MTU_MOST);
	printf("core_mtu: %d of 2 frames of %d bytes delivered\n", at_most, NETWORK_MTU_MOST);
	assert(at_most == 2);
	pair_end(ends);
	return 0;
}
