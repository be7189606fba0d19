#include "remotes.h"

#include "util.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A record: kind, id, time, key and signature of updates, roots. A root: node, type of identity, key, length of the
 * private key (none), number of endpoints. Ids as python/zerotier_multi/planet.py gives them. */
enum { KIND = 0, ID = 1, ROOTS = 177, ROOT = 178, TYPE = 5, KEY = 6, PRIVATE = 70, ROOT_LEAST = 72 };
enum { PLANET = 1, MOON = 127 };
#define PLANET_ID 0x7a746d756c746931ULL
#define MOON_ID (0x7a746dULL << 40)
#define RECORD_LIMIT 65536

/* The first root. */
static bool root_of(const unsigned char *record, size_t length, int kind, struct remote_identity *root) {
	if (length < ROOT + ROOT_LEAST || record[KIND] != kind || record[ROOTS] < 1) return false;
	const unsigned char *identity = record + ROOT;
	if (identity[TYPE] != 0 || identity[PRIVATE] != 0) return false;
	root->node = number_at(identity, 5);
	memcpy(root->key, identity + KEY, PUBLIC_KEY);
	return true;
}

bool planet_is_own(const unsigned char *record, size_t length, uint64_t self) {
	struct remote_identity root;
	return root_of(record, length, PLANET, &root) && number_at(record + ID, 8) == PLANET_ID && record[ROOTS] == 1 &&
	       root.node == self;
}

bool moon_remote(const unsigned char *record, size_t length, struct remote_identity *remote) {
	return root_of(record, length, MOON, remote) && number_at(record + ID, 8) == (MOON_ID | remote->node);
}

enum moon { OURS, FOREIGN, UNREADABLE };

static enum moon read_moon(const char *home, const char *name, struct remote_identity *remote) {
	char path[4096];
	size_t length;
	snprintf(path, sizeof path, "%s/moons.d/%s", home, name);
	char *record = read_file(path, RECORD_LIMIT, &length);
	if (!record) return UNREADABLE;
	bool ours = moon_remote((unsigned char *)record, length, remote);
	free(record);
	return ours ? OURS : FOREIGN;
}

/* By its name, which says more than a record that cannot be read or is damaged. */
static bool named_by_the_product(uint64_t world) { return world >> 40 == MOON_ID >> 40; }

static bool is_moon(const char *name, uint64_t *world) {
	return strlen(name) == 21 && strcmp(name + 16, ".moon") == 0 && parse_hex(name, 16, world);
}

int remotes_read(const char *home, uint64_t self, struct remote_identity *remotes, size_t most) {
	char path[4096];
	size_t length, count = 0;
	snprintf(path, sizeof path, "%s/planet", home);
	char *planet = read_file(path, RECORD_LIMIT, &length);
	bool good = planet && planet_is_own((unsigned char *)planet, length, self);
	free(planet);
	if (!good) return -1;
	snprintf(path, sizeof path, "%s/moons.d", home);
	DIR *directory = opendir(path);
	struct dirent *entry;
	while (good && directory && (entry = readdir(directory))) {
		uint64_t world;
		struct remote_identity remote;
		if (!is_moon(entry->d_name, &world)) continue;
		enum moon moon = read_moon(home, entry->d_name, &remote);
		if (moon == OURS && count < most) remotes[count++] = remote;
		else if (named_by_the_product(world))
			say("the remote of %s/%s is kept out: %s", path, entry->d_name,
			    moon == OURS ? "there are too many" : "the file is damaged or cannot be read");
		else good = false;
	}
	if (directory) closedir(directory);
	return good ? (int)count : -1;
}
