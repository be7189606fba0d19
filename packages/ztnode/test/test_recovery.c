/* A peer's path over time: what is asked, given up and searched. */
#include "recovery.h"

#include <assert.h>
#include <stdio.h>

#define START 1700000000000

/* Look every 50 ms from `from` to `to`; the first time that an action is wanted, or -1. */
static int64_t first(struct watch *watch, struct preferred_path path, bool configured, int64_t from, int64_t to,
                     int action) {
	for (int64_t now = from; now <= to; now += 50)
		if (recovery_look(watch, &path, configured, false, now) & action) return now - START;
	return -1;
}

static void a_path_that_answers_is_left_alone(void) {
	struct watch watch = {.node = 1};
	for (int64_t now = START; now < START + 60000; now += 50) {
		struct preferred_path path = {.found = true, .sent = now, .received = now - 150};
		assert(recovery_look(&watch, &path, true, false, now) == 0);
	}
}

static void a_silent_path_is_asked_twice_and_given_up(void) {
	struct watch watch = {.node = 1};
	struct preferred_path path = {.found = true, .sent = START, .received = START - 10};
	assert(first(&watch, path, false, START, START + 5000, RECOVERY_ASK) == 1000);
	assert(first(&watch, path, false, START + 1050, START + 5000, RECOVERY_ASK) == 1300);
	assert(recovery_look(&watch, &path, false, false, START + 1599) == 0);
	assert(recovery_look(&watch, &path, false, false, START + 1600) == (RECOVERY_RESET | RECOVERY_SEARCH));
}

/* By a satellite an answer takes 700 ms, and a path that is just slow is not given up. */
static void a_long_way_has_more_time(void) {
	static const struct {
		int latency;
		int64_t given_up;
	} ways[] = {{-1, 1600}, {0, 1600}, {250, 1600}, {700, 2250}, {0xffff, 4000}};
	for (unsigned int i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct watch watch = {.node = 1};
		struct preferred_path path = {.found = true, .sent = START, .received = START - 10, .latency = ways[i].latency};
		assert(first(&watch, path, false, START, START + 9000, RECOVERY_RESET) == ways[i].given_up);
	}
}

static void an_answer_ends_the_doubt(void) {
	struct watch watch = {.node = 1};
	struct preferred_path path = {.found = true, .sent = START, .received = START - 10};
	assert(first(&watch, path, false, START, START + 5000, RECOVERY_ASK) == 1000);
	path.received = START + 1040;
	assert(first(&watch, path, false, START + 1050, START + 60000, RECOVERY_ASK | RECOVERY_RESET) == -1);
}

static void silence_alone_is_no_doubt_where_nothing_was_sent(void) {
	struct watch watch = {.node = 1};
	struct preferred_path path = {.found = true, .sent = START - 10, .received = START};
	assert(first(&watch, path, false, START, START + 60000, RECOVERY_ASK) == -1);
	/* but a configured peer is asked, so that its NAT stays open and its end is noticed */
	assert(first(&watch, path, true, START, START + 60000, RECOVERY_ASK) == 5000);
}

static void another_address_makes_the_doubt_come_sooner(void) {
	struct watch watch = {.node = 1};
	struct preferred_path path = {.found = true, .sent = START, .received = START};
	/* heard from elsewhere at once, when the old path is not silent yet */
	assert(recovery_look(&watch, &path, true, true, START) == 0);
	assert(first(&watch, path, true, START + 50, START + 5000, RECOVERY_ASK) == 250);
	assert(first(&watch, path, true, START + 300, START + 5000, RECOVERY_RESET) == 850);
	/* a live path stays, however often */
	struct watch other = {.node = 2};
	for (int64_t now = START; now < START + 60000; now += 50) {
		struct preferred_path live = {.found = true, .sent = now, .received = now - 100};
		assert(recovery_look(&other, &live, true, true, now) == 0);
	}
}

/* Its answers come by another path, as after a failover at the other end; or they always do. */
static void a_path_that_another_overtakes_is_asked_once_a_second(void) {
	struct watch watch = {.node = 1};
	struct preferred_path path = {.found = true, .sent = START, .received = START, .heard = START + 499};
	assert(recovery_look(&watch, &path, false, false, START + 500) == 0);
	path.heard = START + 500;
	assert(recovery_look(&watch, &path, false, false, START + 500) == RECOVERY_ASK);
	assert(first(&watch, path, false, START + 550, START + 5000, RECOVERY_RESET) == 1100);
	struct watch other = {.node = 2};
	int64_t answered = START;
	int questions = 0;
	for (int64_t now = START; now < START + 60000; now += 50) {
		struct preferred_path oblique = {.found = true, .sent = answered, .received = answered, .heard = now};
		if (!(recovery_look(&other, &oblique, false, false, now) & RECOVERY_ASK)) continue;
		answered = now + 40;
		questions++;
	}
	assert(questions == 60 || questions == 59);
}

static void a_closed_socket_needs_no_question(void) {
	struct watch watch = {.node = 1};
	struct preferred_path path = {.found = true, .gone = true, .sent = START, .received = START};
	assert(recovery_look(&watch, &path, false, false, START) == (RECOVERY_RESET | RECOVERY_SEARCH));
}

static void a_lost_peer_is_searched_eagerly_and_then_steadily(void) {
	struct watch watch = {.node = 1};
	struct preferred_path none = {.found = false};
	int searches = 0;
	for (int64_t now = START; now < START + 20000; now += 50)
		if (recovery_look(&watch, &none, true, false, now) & RECOVERY_SEARCH) searches++;
	assert(searches == 20 + 5);
	struct watch unknown = {.node = 2}; /* the core looks for those */
	assert(first(&unknown, none, false, START, START + 20000, RECOVERY_SEARCH) == -1);
	/* lost again after it was back: eagerly again, at once */
	struct preferred_path path = {.found = true, .sent = START + 60000, .received = START + 60000};
	assert(recovery_look(&watch, &path, true, false, START + 60000) == 0);
	assert(recovery_look(&watch, &none, true, false, START + 60050) == RECOVERY_SEARCH);
	assert(first(&watch, none, true, START + 60100, START + 70000, RECOVERY_SEARCH) == 60550);
}

static void configured_addresses_are_tried_while_another_serves(void) {
	struct watch watch = {.node = 1};
	int searches = 0;
	for (int64_t now = START; now < START + 60000; now += 50) {
		struct preferred_path path = {.found = true, .astray = true, .sent = now, .received = now - 150};
		int todo = recovery_look(&watch, &path, true, false, now);
		assert(todo == 0 || todo == RECOVERY_TRY);
		searches += todo != 0;
	}
	assert(searches == 60000 / RECOVERY_ASTRAY);
}

int main(void) {
	a_path_that_answers_is_left_alone();
	a_silent_path_is_asked_twice_and_given_up();
	a_long_way_has_more_time();
	an_answer_ends_the_doubt();
	silence_alone_is_no_doubt_where_nothing_was_sent();
	another_address_makes_the_doubt_come_sooner();
	a_path_that_another_overtakes_is_asked_once_a_second();
	a_closed_socket_needs_no_question();
	a_lost_peer_is_searched_eagerly_and_then_steadily();
	configured_addresses_are_tried_while_another_serves();
	puts("ok");
	return 0;
}
