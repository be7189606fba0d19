/* A peer's path and the uplink that the routes prefer, over time. */
#include "homing.h"

#include <assert.h>
#include <stdio.h>

#define START 1700000000000

/* Compare whenever it is due, every 250 ms from `from` on, with a better uplink; when the nth question goes out. */
static int64_t question(struct homing *homing, int64_t from, int nth) {
	for (int64_t now = from; now < from + 1000000; now += 250)
		if (homing_due(homing, now) && homing_compared(homing, 7, now) && nth-- == 0) return now - from;
	return -1;
}

/* The path is at home for so long, and then given up. */
static int64_t home(struct homing *homing, int64_t now, int64_t length) {
	for (int64_t end = now + length; now < end; now += 250)
		if (homing_due(homing, now)) assert(!homing_compared(homing, 0, now));
	assert(homing_socket(homing, 3, now) == 3);
	homing_fell(homing, now);
	assert(homing_socket(homing, 3, now) == 0);
	return now;
}

static void a_path_at_home_is_compared_and_left_alone(void) {
	struct homing homing = {0};
	int compared = 0;
	for (int64_t now = START; now < START + 60000; now += 250)
		if (homing_due(&homing, now)) compared += !homing_compared(&homing, 0, now);
	assert(compared == 60000 / HOMING_COMPARE && homing_socket(&homing, 3, START + 60000) == 3);
}

static void one_that_is_not_is_asked_for_less_and_less_often(void) {
	static const int64_t at[] = {0, 5000, 15000, 35000, 75000, 115000, 155000};
	for (int n = 0; n < (int)(sizeof at / sizeof *at); n++) {
		struct homing homing = {0};
		assert(question(&homing, START, n) == at[n]);
		assert(homing_socket(&homing, 3, START + at[n] + HOMING_ANSWER) == 0);
	}
}

static void a_line_that_falls_again_has_its_turn_later(void) {
	static const int64_t pauses[] = {10000, 20000, 40000, 80000, 160000, 320000, 320000};
	struct homing homing = {0};
	int64_t now = START;
	for (unsigned int n = 0; n < sizeof pauses / sizeof *pauses; n++) {
		now = home(&homing, now, 20000);
		int64_t after = question(&homing, now, 0);
		assert(after == pauses[n]);
		now += after + HOMING_COMPARE;
	}
	now = home(&homing, now, HOMING_CALM + 2 * HOMING_COMPARE);
	assert(question(&homing, now, 0) == HOMING_FELL);
}

/* Packets by the former uplink come meanwhile, and would bring the path back before the next comparison. */
static void it_is_kept_from_the_question_on(void) {
	struct homing homing = {0};
	assert(homing_compared(&homing, 7, START));
	assert(homing_socket(&homing, 3, START) == 7 && homing_socket(&homing, 3, START + HOMING_ANSWER - 1) == 7);
	assert(homing_socket(&homing, 7, START + HOMING_ANSWER - 1) == 7 && homing_socket(&homing, 7, START + 10000) == 7);
	homing_fell(&homing, START + 20000);
	assert(homing_socket(&homing, 3, START + 20000) == 0 && !homing_due(&homing, START + 20000 + HOMING_FELL - 1));
	assert(homing_compared(&homing, 7, START + 40000));
	homing_fell(&homing, START + 40100);
	assert(homing_socket(&homing, 3, START + 40100) == 0);
}

static void a_fall_elsewhere_changes_nothing(void) {
	struct homing homing = {0};
	assert(question(&homing, START, 0) == 0);
	homing_fell(&homing, START + 100);
	assert(question(&homing, START + 250, 0) == HOMING_COMPARE - 250);
}

int main(void) {
	a_path_at_home_is_compared_and_left_alone();
	one_that_is_not_is_asked_for_less_and_less_often();
	a_line_that_falls_again_has_its_turn_later();
	it_is_kept_from_the_question_on();
	a_fall_elsewhere_changes_nothing();
	puts("ok");
	return 0;
}
