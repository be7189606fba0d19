/* The core's clock, by a wall clock that is set and one that is not. */
#include "util.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define WALL 1700000000000
#define HOUR 3600000

static void it_follows_the_wall_clock_forwards_alone(void) {
	_Atomic int64_t lead = INT64_MIN;
	assert(never_back(&lead, WALL, 5000) == WALL);
	assert(never_back(&lead, WALL + 10, 5010) == WALL + 10);
	assert(never_back(&lead, WALL - 2 * HOUR, 5020) == WALL + 20);        /* set back: it goes on */
	assert(never_back(&lead, WALL - 2 * HOUR + 100, 5120) == WALL + 120); /* as fast as before */
	assert(never_back(&lead, WALL - HOUR, 5130) == WALL + 130);           /* set forward, by less */
	assert(never_back(&lead, WALL + HOUR, 5140) == WALL + HOUR);          /* and by more */
	assert(never_back(&lead, WALL + HOUR - 3, 5150) == WALL + HOUR + 10); /* by a trifle */
}

/* A thread may wait for long between its readings of the two clocks. */
static void a_pause_is_no_clock_that_is_ahead(void) {
	_Atomic int64_t lead = INT64_MIN;
	assert(never_back(&lead, WALL, 5000) == WALL);
	assert(never_back(&lead, WALL + 10, 6010) == WALL + 1010);
	assert(never_back(&lead, WALL + 1020, 6020) == WALL + 1020);
}

static void the_machine_s_own(void) {
	int64_t before = wall_ms(), now = now_ms();
	assert(now >= before - 1 && now <= wall_ms() + 1);
}

static _Atomic int64_t shared = INT64_MIN;

static void *read_often(void *argument) {
	int64_t last = 0, error = *(const int64_t *)argument;
	for (int64_t clock = 0; clock < 20000; clock++) {
		int64_t now = never_back(&shared, WALL + clock + (clock % 7) * error, clock);
		assert(now >= last);
		last = now;
	}
	return NULL;
}

/* What the thread sanitizer looks at. */
static void threads_share_it(void) {
	static const int64_t errors[2] = {1, 1000};
	pthread_t threads[2];
	for (int i = 0; i < 2; i++) assert(pthread_create(&threads[i], NULL, read_often, (void *)&errors[i]) == 0);
	for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
	assert(never_back(&shared, 0, 0) == WALL + 6000);
}

int main(void) {
	it_follows_the_wall_clock_forwards_alone();
	a_pause_is_no_clock_that_is_ahead();
	the_machine_s_own();
	threads_share_it();
	puts("ok");
	return 0;
}
