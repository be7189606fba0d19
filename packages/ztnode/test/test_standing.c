#include "standing.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GLOBAL = 4, SHARED = 6, PRIVATE = 7 };
#define LOST 5000 /* when the path was lost */

static void test_what_stands(void) {
	assert(standing_scope(GLOBAL, true, 0, 0, LOST) == GLOBAL);
	assert(standing_scope(PRIVATE, true, GLOBAL, 0, LOST) == PRIVATE);
	/* given up: what is configured is waited for, and not for ever */
	assert(standing_scope(GLOBAL, false, 0, 0, LOST) == 0);
	assert(standing_scope(PRIVATE, false, GLOBAL, 0, LOST) == GLOBAL);
	assert(standing_scope(0, false, GLOBAL, LOST, LOST) == GLOBAL);
	assert(standing_scope(0, false, GLOBAL, LOST, LOST + STANDING_MS - 1) == GLOBAL);
	assert(standing_scope(0, false, GLOBAL, LOST, LOST + STANDING_MS) == 0);
	assert(standing_scope(0, false, 0, LOST, LOST) == 0);
}

static void set(struct standings *all, int one, int two, int three) {
	struct standing list[] = {{1, one}, {2, two}, {1ULL << 39, three}};
	struct standing *copy = malloc(sizeof list);
	assert(copy);
	memcpy(copy, list, sizeof list);
	standings_set(all, copy, 3);
}

static void test_admission(void) {
	struct standings all;
	standings_begin(&all);
	assert(standings_admit(&all, 1, PRIVATE, false)); /* nothing is known */
	set(&all, GLOBAL, 0, PRIVATE);
	assert(!standings_admit(&all, 1, PRIVATE, false) && !standings_admit(&all, 1, SHARED, false));
	assert(standings_admit(&all, 1, GLOBAL, false)); /* it has moved, or another port */
	assert(standings_admit(&all, 1, PRIVATE, true));
	assert(!standings_admit(&all, 1, PRIVATE, false)); /* that one is configured has changed nothing for others */
	assert(standings_admit(&all, 1ULL << 39, PRIVATE, false) && standings_admit(&all, 3, PRIVATE, false));
	/* without a path, the first that is configured stands before it is looked at again */
	assert(standings_admit(&all, 2, PRIVATE, false));
	assert(standings_admit(&all, 2, GLOBAL, true) && !standings_admit(&all, 2, PRIVATE, false));
	set(&all, GLOBAL, 0, PRIVATE);
	assert(standings_admit(&all, 2, PRIVATE, false));
	standings_end(&all);
}

int main(void) {
	test_what_stands();
	test_admission();
	puts("standing: paths that answer stand");
	return 0;
}
