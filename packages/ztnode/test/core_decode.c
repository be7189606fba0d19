/* A packet that came too early is delivered when its time has come, by two real cores with a wire between them.
 *
 * B sends a frame to A while A's network still wants a certificate from B; then A's network turns public. The core of
 * 1.8.4 alone has decrypted the waiting packet twice by then and drops it. */
#include "pair.h"

enum { MTU = 1400 };

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works());
	pair_begin(ends);
	configure(a, false, MTU), configure(b, true, MTU);
	work(ends, 700);

	const unsigned char frame[40] = {0x45, 0, 0, 40, [39] = 42};
	for (int i = 0; i < 3; i++) send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 1300); /* two looks at what waits */
	assert(a->frames == 0);
	configure(a, true, MTU);
	work(ends, 1300);
	printf("core_decode: %d of 3 delivered\n", a->frames);
	assert(a->frames == 3 && a->last_length == sizeof frame && memcmp(a->last_frame, frame, sizeof frame) == 0);
	pair_end(ends);
	return 0;
}
