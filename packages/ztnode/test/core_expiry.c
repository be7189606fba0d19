/* Frames for ever new groups take no memory once their time is over. */
#include "expiry.h"

#include "pair.h"

#include <malloc.h>

enum { GROUPS = 400 };

static size_t in_use(void) { return mallinfo2().uordblks; }

int main(void) {
	static struct end ends[2];
	pair_begin(ends);
	configure(&ends[0], true, 1500), configure(&ends[1], true, 1500);
	work(ends, 1000);
	size_t before = in_use();
	const unsigned char frame[100] = {0x45};
	for (uint64_t group = 0; group < GROUPS; group++) {
		send_frame(&ends[0], ends[0].mac, 0x01005e100000 + group, frame, sizeof frame);
		if (group % 10 == 9) work(ends, 5);
	}
	size_t kept = in_use() - before;
	expiry_look(core_time() + 1000); /* they may be sent yet */
	size_t young = in_use() - before;
	expiry_look(core_time() + 6000);
	size_t left = in_use() - before;
	printf("core_expiry: %zu kB, %zu after a second, %zu in the end\n", kept >> 10, young >> 10, left >> 10);
	assert(kept > GROUPS * 20000 && young > GROUPS * 20000 && left < 1 << 20);
	pair_end(ends);
	return 0;
}
