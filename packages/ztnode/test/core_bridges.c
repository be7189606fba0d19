/* Ever new addresses behind another bridge of a network take a certain amount of memory, and frames to all of them arrive.
 */
#include "forge.h"

#include "bridges.h"

#include <malloc.h>

enum { VERB_EXT_FRAME = 7, LIMIT = 16384, BEFORE = 4 * LIMIT };
#define MADE_UP 0x060000000000ULL /* those of members begin with 02 here */
#define HERE 0x061111111111ULL
#define BRIDGE 0x0000020000000000ULL

static void make_bridges(struct end *ends) {
	for (int i = 0; i < 2; i++) {
		configure(&ends[i], true, 1400);
		begin(&ends[i], &ends[i], 0, VERB_EXT_FRAME);
		for (int k = 0; k < 2; k++) append(BRIDGE | strtoull(ends[k].public, NULL, 16), 8);
		put_value(&ends[i], "S");
		join(&ends[i]);
	}
}

static size_t frames_from(struct end *a, const struct end *b, unsigned int count) {
	size_t before = mallinfo2().uordblks;
	for (uint64_t i = 0; i < count; i++) {
		begin(a, b, 0, VERB_EXT_FRAME);
		append(NETWORK, 8), append(0, 1), append(HERE, 6), append(MADE_UP + i, 6), append(0x0800, 2);
		append(0x45000028, 4), append(0, 8), append(0, 8), append(0, 8), append(0, 8), append(0, 4);
		seal(a, b), receive_whole(a, b);
	}
	return mallinfo2().uordblks - before;
}

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works() && bridges_works());
	pair_begin(ends);
	make_bridges(ends);
	work(ends, 1000);
	size_t some = frames_from(a, b, LIMIT / 4), more = frames_from(a, b, BEFORE);
	printf("core_bridges: %d frames, %zu kB for %d addresses, %zu kB for %d\n", a->frames, some >> 10, LIMIT / 4,
	       more >> 10, BEFORE);
	assert(a->frames == LIMIT / 4 + BEFORE);
	assert(some > LIMIT / 4 * 40 && more < 4 * some);
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	for (unsigned int i = 0; i < BEFORE; i += BEFORE / 8) {
		b->frames = 0;
		send_frame(a, HERE, MADE_UP + i, frame, sizeof frame);
		work(ends, 50);
		assert(b->frames == 1);
	}
	pair_end(ends);
	return 0;
}
