/* Which planet a home has: its own, and the newest public one where it has none or an outdated one. */
#include "state.h"

#include "core.h"
#include "planet.h"
#include "util.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t NO_ID[2];
static char home[64], path[96];

/* The planet that the core is given when the file is this. */
static size_t given(const unsigned char *file, size_t length, unsigned char *record) {
	assert(!file || write_file(path, file, length, 0644));
	int got = state_get(home, CORE_STATE_PLANET, NO_ID, record, 4096);
	assert(got > 0);
	return (size_t)got;
}

int main(void) {
	strcpy(home, "/tmp/ztnode-state-XXXXXX");
	assert(mkdtemp(home));
	snprintf(path, sizeof path, "%s/planet", home);
	size_t length;
	const unsigned char *newest = planet_newest(&length);
	unsigned char record[4096], file[4096];
	assert(given(NULL, 0, record) == length && memcmp(record, newest, length) == 0);

	memcpy(file, newest, length);
	file[9 + 2] = 0; /* the public planet of an earlier time */
	assert(planet_outdated(file, length));
	assert(given(file, length, record) == length && memcmp(record, newest, length) == 0);

	file[9 + 2] = 2; /* of a later time: the roots have sent a newer one */
	assert(given(file, length, record) == length && memcmp(record, file, length) == 0);

	file[9 + 2] = 0, file[17] ^= 1; /* a private planet that has the public one's id, as many have */
	assert(!planet_outdated(file, length));
	assert(given(file, length, record) == length && memcmp(record, file, length) == 0);

	file[17] ^= 1, file[8] ^= 1; /* another id */
	assert(given(file, length, record) == length && memcmp(record, file, length) == 0);
	assert(given((const unsigned char *)"x", 1, record) == 1 && record[0] == 'x'); /* the core leaves it out */
	assert(unlink(path) == 0 && state_get(home, CORE_STATE_PLANET, NO_ID, record, 10) == -1);
	assert(rmdir(home) == 0);
	puts("state: good");
	return 0;
}
