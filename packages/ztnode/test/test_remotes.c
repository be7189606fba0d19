/* World records of a controller-free link, and of others. */
#include "remotes.h"
#include "util.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SELF 0x1111111111
#define REMOTE 0x2222222222
#define SIZE 250

static void put(unsigned char *at, uint64_t number, int bytes) {
	for (int i = bytes - 1; i >= 0; i--, number >>= 8) at[i] = (unsigned char)number;
}

/* As python/zerotier_multi/planet.py writes them, with one root without endpoints. */
static void make(unsigned char record[SIZE], int kind, uint64_t id, uint64_t node) {
	memset(record, 0, SIZE);
	record[0] = (unsigned char)kind;
	put(record + 1, id, 8);
	record[177] = 1;
	put(record + 178, node, 5);
	memset(record + 184, 0x5a, 64);
}

static void a_planet_is_own_or_not(void) {
	unsigned char record[SIZE];
	make(record, 1, 0x7a746d756c746931, SELF);
	assert(planet_is_own(record, SIZE, SELF));
	assert(!planet_is_own(record, SIZE, REMOTE));
	for (size_t length = 0; length < SIZE; length++) assert(!planet_is_own(record, length, SELF));
	record[177] = 2;
	assert(!planet_is_own(record, SIZE, SELF)); /* somebody else is a root too */
	make(record, 1, 149604618, SELF);           /* the public planet's id */
	assert(!planet_is_own(record, SIZE, SELF));
}

static void a_moon_is_about_a_remote_or_another_one(void) {
	unsigned char record[SIZE];
	struct remote_identity remote;
	make(record, 127, 0x7a746dULL << 40 | REMOTE, REMOTE);
	assert(moon_remote(record, SIZE, &remote) && remote.node == REMOTE && remote.key[0] == 0x5a && remote.key[63] == 0x5a);
	for (size_t length = 0; length < SIZE; length++) assert(!moon_remote(record, length, &remote));
	make(record, 127, 0x7a746dULL << 40 | REMOTE, SELF);
	assert(!moon_remote(record, SIZE, &remote));
	make(record, 1, 0x7a746dULL << 40 | REMOTE, REMOTE);
	assert(!moon_remote(record, SIZE, &remote));
}

static void a_home_says_who_they_are(void) {
	char home[] = "/tmp/test_remotes.XXXXXX", path[200];
	unsigned char record[SIZE];
	struct remote_identity remotes[2];
	assert(mkdtemp(home));
	assert(remotes_read(home, SELF, remotes, 2) == -1);
	snprintf(path, sizeof path, "%s/planet", home);
	make(record, 1, 0x7a746d756c746931, SELF);
	assert(write_file(path, record, SIZE, 0644) && remotes_read(home, SELF, remotes, 2) == 0);
	snprintf(path, sizeof path, "%s/moons.d", home);
	assert(mkdir(path, 0700) == 0);
	snprintf(path, sizeof path, "%s/moons.d/7a746d2222222222.moon", home);
	make(record, 127, 0x7a746dULL << 40 | REMOTE, REMOTE);
	assert(write_file(path, record, SIZE, 0644) && remotes_read(home, SELF, remotes, 2) == 1 && remotes[0].node == REMOTE);
	assert(remotes_read(home, SELF, remotes, 0) == 0); /* no room: left out, and the link stays closed */
	snprintf(path, sizeof path, "%s/moons.d/7a746d3333333333.moon", home);
	assert(write_file(path, "", 0, 0644) && remotes_read(home, SELF, remotes, 2) == 1); /* the disk was full */
	assert(unlink(path) == 0 && mkdir(path, 0700) == 0 && remotes_read(home, SELF, remotes, 2) == 1); /* a read error */
	snprintf(path, sizeof path, "%s/moons.d/0000000000000001.moon", home); /* somebody's own choice: then it is open */
	make(record, 127, 1, REMOTE);
	assert(write_file(path, record, SIZE, 0644) && remotes_read(home, SELF, remotes, 2) == -1);
	char command[240];
	snprintf(command, sizeof command, "rm -r %s", home);
	assert(system(command) == 0);
}

int main(void) {
	a_planet_is_own_or_not();
	a_moon_is_about_a_remote_or_another_one();
	a_home_says_who_they_are();
	puts("ok");
	return 0;
}
