/* No change that the kernel tells is lost, and many of them do not make many looks. */
#include "looks.h"

#include <assert.h>
#include <stdio.h>

#define START 1000000
#define LOOP 250

static void first_at_once(void) {
	struct looks looks = {0};
	assert(looks_due(&looks, false, START)); /* when the node starts */
	looks_done(&looks, START);
	assert(!looks_due(&looks, false, START + LOOKS_STEADY - 1));
	assert(looks_due(&looks, false, START + LOOKS_STEADY));
	looks_done(&looks, START + LOOKS_STEADY);
	assert(!looks_due(&looks, false, START + LOOKS_STEADY + 1));
	/* The look just before was at nothing that was told. */
	assert(looks_due(&looks, true, START + LOOKS_STEADY + 2));
}

/* A change soon after another is looked at as soon as it may be, without a third one to remind of it. */
static void second_is_kept_in_mind(void) {
	struct looks looks = {0};
	assert(looks_due(&looks, true, START - 3));
	looks_done(&looks, START);
	assert(looks_pause(&looks, START + 1, LOOP) == LOOP);
	assert(!looks_due(&looks, true, START + 30));
	assert(looks_pause(&looks, START + 30, LOOP) == LOOKS_APART - 30 && looks_pause(&looks, START + 30, 50) == 50);
	assert(!looks_due(&looks, false, START + LOOKS_APART - 1));
	assert(looks_pause(&looks, START + LOOKS_APART + 5, LOOP) == 1);
	assert(looks_due(&looks, false, START + LOOKS_APART));
	looks_done(&looks, START + LOOKS_APART + 7);
	assert(!looks.changed && looks_pause(&looks, START + LOOKS_APART + 8, LOOP) == LOOP);
	assert(!looks_due(&looks, false, START + 2 * LOOKS_APART + 7));
}

/* A change every 11 ms for ten seconds, in a loop that sleeps as looks_pause says and that, while no look is awaited, the
 * first change wakes. A look takes 5 ms and sees what was told before it. */
static void storm(void) {
	struct looks looks = {0};
	const int64_t begin = START, end = START + 10000;
	int64_t now = begin, told = begin, seen = 0;
	int count = 0;
	bool changed = true;
	while (now < end + 1000) {
		if (looks_due(&looks, changed, now)) {
			seen = now;
			looks_done(&looks, now += 5);
			count++;
		}
		while (told <= seen) told += 11; /* the first that no look has seen */
		int64_t wake = now + looks_pause(&looks, now, LOOP);
		changed = told <= end && told <= wake && !looks.changed;
		if (!changed) now = wake;
		else if (told > now) now = told;
		assert(told > end || now - told < LOOKS_APART + 5);
	}
	assert(told > end && count >= 45 && count <= 60);
}

int main(void) {
	first_at_once();
	second_is_kept_in_mind();
	storm();
	puts("looks: good");
	return 0;
}
