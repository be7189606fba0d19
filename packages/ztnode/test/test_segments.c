/* When messages of several segments rest after a refusal, and when they are tried again. */
#include "segments.h"

#include <assert.h>
#include <stdio.h>

static void they_go_until_they_are_refused(void) {
	struct segments segments = {0};
	assert(segments_may_go(&segments, 1400, 5));
	assert(segments_refused(&segments, 1400, 1000));
	assert(!segments_may_go(&segments, 1400, 1000) && !segments_may_go(&segments, 1400, 1999));
	assert(segments_may_go(&segments, 1400, 2000));
}

static void the_pause_doubles_up_to_a_limit_and_ends_when_they_are_taken(void) {
	struct segments segments = {0};
	int64_t now = 0;
	for (int64_t pause = 1000; pause < 200000; pause *= 2) {
		int64_t here = pause < SEGMENTS_PAUSE_MOST_MS ? pause : SEGMENTS_PAUSE_MOST_MS;
		assert(segments_refused(&segments, 1400, now) == (pause == 1000));
		assert(!segments_may_go(&segments, 1400, now + here - 1));
		now += here;
		assert(segments_may_go(&segments, 1400, now));
	}
	segments_taken(&segments, 1400);
	assert(segments_may_go(&segments, 1400, 0));
	assert(segments_refused(&segments, 1400, now) && segments_may_go(&segments, 1400, now + 1000));
}

static void smaller_ones_go_and_prove_nothing_for_larger_ones(void) {
	struct segments segments = {0};
	segments_refused(&segments, 1400, 0);
	assert(segments_may_go(&segments, 1399, 1));
	segments_taken(&segments, 1399);
	assert(!segments_may_go(&segments, 1400, 1));
	segments_refused(&segments, 1300, 1000);
	assert(!segments_may_go(&segments, 1350, 1001));
}

int main(void) {
	they_go_until_they_are_refused();
	the_pause_doubles_up_to_a_limit_and_ends_when_they_are_taken();
	smaller_ones_go_and_prove_nothing_for_larger_ones();
	puts("segments: good");
	return 0;
}
