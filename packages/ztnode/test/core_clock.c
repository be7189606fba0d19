/* The clock is set back by two hours, as at a boot with a clock that was wrong: what waits in the core is looked at again
 * as soon as before, and both ends still hear each other. Two real cores with a wire between them. */
#include "pair.h"

enum { MTU = 1400, HOURS = 3600000 };

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works());
	pair_begin(ends);
	configure(a, false, MTU), configure(b, true, MTU);
	work(ends, 700);

	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, a->mac, frame, sizeof frame); /* waits, as in core_decode.c */
	work(ends, 100);
	clock_error = -2 * HOURS;
	configure(a, true, MTU);
	work(ends, 1300);
	printf("core_clock: %d of 1 delivered\n", a->frames);
	assert(a->frames == 1);
	uint64_t hello = b->last_hello;
	work(ends, 6000); /* a look at the peers */
	send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 100);
	assert(a->frames == 2 && b->last_hello != hello);
	pair_end(ends);
	return 0;
}
