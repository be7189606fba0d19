/* Which planet a home has: its own, and the newest public one where it has none or an outdated one. */
#include "state.h"

#include "core.h"
#include "planet.h"
#include "util.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* -- files of peers */

#define NOW 1700000000000
#define DAY 86400

static void put_file(const char *name, int64_t days) {
	char file[192];
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = NOW / 1000 - days * DAY}};
	snprintf(file, sizeof file, "%s/peers.d/%s", home, name);
	assert(write_file(file, "x", 1, 0600) && utimensat(AT_FDCWD, file, times, 0) == 0);
}

static bool is_there(const char *name) {
	char file[192];
	snprintf(file, sizeof file, "%s/peers.d/%s", home, name);
	return access(file, F_OK) == 0;
}

static void remove_file(const char *name) {
	char file[192];
	snprintf(file, sizeof file, "%s/peers.d/%s", home, name);
	assert(unlink(file) == 0);
}

static void peers_are_forgotten_after_thirty_days(void) {
	put_file("0123456789.peer", 29), put_file("1123456789.peer", 31), put_file("2123456789.peer", 31);
	put_file("other", 31), put_file("012345678x.peer", 31);                              /* nobody's business */
	assert(state_put(home, CORE_STATE_PEER, (const uint64_t[2]){0x2123456789}, "x", 1)); /* as before: heard of now */
	state_forget_peers(home, NOW);
	assert(is_there("0123456789.peer") && !is_there("1123456789.peer") && is_there("2123456789.peer"));
	assert(is_there("other") && is_there("012345678x.peer"));
	remove_file("0123456789.peer"), remove_file("2123456789.peer"), remove_file("other"), remove_file("012345678x.peer");
}

static void the_oldest_of_too_many_peers_are_forgotten(void) {
	char name[32];
	for (int i = 0; i < STATE_PEERS_MOST + 10; i++) {
		snprintf(name, sizeof name, "%010x.peer", i);
		put_file(name, i % 7 == 0 && i < 70 ? 20 : 1);
	}
	state_forget_peers(home, NOW);
	for (int i = 0; i < STATE_PEERS_MOST + 10; i++) {
		snprintf(name, sizeof name, "%010x.peer", i);
		assert(is_there(name) == !(i % 7 == 0 && i < 70));
		if (is_there(name)) remove_file(name);
	}
}

/* -- what must be on the disk */

static int flushed; /* files and directories */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
	struct stat info;
	assert(fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)));
	flushed += S_ISREG(info.st_mode) ? 1 : 10;
	return 0;
}

static void a_secret_outlives_a_power_cut(void) {
	assert(state_put(home, CORE_STATE_IDENTITY_SECRET, NO_ID, "secret", 6) && flushed == 11);
	assert(!state_put(home, CORE_STATE_IDENTITY_SECRET, NO_ID, "other", 5)); /* there is one */
	assert(state_put(home, CORE_STATE_IDENTITY_PUBLIC, NO_ID, "public", 6) && flushed == 11);
	snprintf(path, sizeof path, "%s/identity.secret", home);
	assert(unlink(path) == 0);
	snprintf(path, sizeof path, "%s/identity.public", home);
	assert(unlink(path) == 0);
}

int main(void) {
	strcpy(home, "/tmp/ztnode-state-XXXXXX");
	assert(mkdtemp(home));
	a_secret_outlives_a_power_cut();
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
	snprintf(path, sizeof path, "%s/peers.d", home);
	assert(mkdir(path, 0700) == 0);
	peers_are_forgotten_after_thirty_days();
	the_oldest_of_too_many_peers_are_forgotten();
	assert(rmdir(path) == 0 && rmdir(home) == 0);
	state_forget_peers(home, NOW); /* no folder at all */
	puts("state: good");
	return 0;
}
