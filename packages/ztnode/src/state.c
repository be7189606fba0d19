#include "state.h"

#include "core.h"
#include "planet.h"
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096
#define DAY 86400

static unsigned int path_of(const char *home, int type, const uint64_t id[2], char path[PATH_SIZE]) {
	switch (type) {
	case CORE_STATE_IDENTITY_PUBLIC:
		snprintf(path, PATH_SIZE, "%s/identity.public", home);
		return 0644;
	case CORE_STATE_IDENTITY_SECRET:
		snprintf(path, PATH_SIZE, "%s/identity.secret", home);
		return 0600;
	case CORE_STATE_PLANET:
		snprintf(path, PATH_SIZE, "%s/planet", home);
		return 0644;
	case CORE_STATE_MOON:
		snprintf(path, PATH_SIZE, "%s/moons.d/%016llx.moon", home, (unsigned long long)id[0]);
		return 0644;
	case CORE_STATE_PEER:
		snprintf(path, PATH_SIZE, "%s/peers.d/%010llx.peer", home, (unsigned long long)id[0]);
		return 0600;
	case CORE_STATE_NETWORK_CONFIG:
		snprintf(path, PATH_SIZE, "%s/networks.d/%016llx.conf", home, (unsigned long long)id[0]);
		return 0600;
	default:
		return 0;
	}
}

/* What a home without a planet has, or with an outdated one. The core takes it before its own, which is older. */
static int newest_planet(void *data, unsigned int size) {
	size_t length;
	const unsigned char *record = planet_newest(&length);
	if (length > size) return -1;
	memcpy(data, record, length);
	return (int)length;
}

/* It may be a secret. */
static void forget(char *content, size_t length) {
	explicit_bzero(content, length);
	free(content);
}

int state_get(const char *home, int type, const uint64_t id[2], void *data, unsigned int size) {
	char path[PATH_SIZE];
	if (!path_of(home, type, id, path)) return -1;
	size_t length;
	char *content = read_file(path, size, &length);
	if (type == CORE_STATE_PLANET && (!content || planet_outdated((unsigned char *)content, length))) {
		free(content);
		return newest_planet(data, size);
	}
	if (!content) return -1;
	memcpy(data, content, length);
	forget(content, length);
	return (int)length;
}

bool state_put(const char *home, int type, const uint64_t id[2], const void *data, int length) {
	char path[PATH_SIZE];
	unsigned int mode = path_of(home, type, id, path);
	if (!mode) return true;
	bool identity = type == CORE_STATE_IDENTITY_PUBLIC || type == CORE_STATE_IDENTITY_SECRET;
	if (length < 0) {
		if (!identity) unlink(path);
		return true;
	}
	size_t known;
	char *before = read_file(path, 1 << 20, &known);
	bool same = before && known == (size_t)length && memcmp(before, data, known) == 0;
	if (before) forget(before, known);
	if (same) {
		if (type == CORE_STATE_PEER) utimensat(AT_FDCWD, path, NULL, 0); /* it was heard of now */
		return true;
	}
	if (type == CORE_STATE_IDENTITY_SECRET && access(path, F_OK) == 0) return false;
	if (type == CORE_STATE_MOON || type == CORE_STATE_PEER || type == CORE_STATE_NETWORK_CONFIG) {
		char *slash = strrchr(path, '/');
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	bool lasting = type == CORE_STATE_IDENTITY_SECRET;
	if ((lasting ? write_lasting : write_file)(path, data, (size_t)length, mode)) return true;
	say("cannot write %s: %s", path, strerror(errno));
	return !identity;
}

/* -- peers that are gone */

struct record {
	int64_t written; /* second of the wall clock */
	char name[16];
};

static int by_age(const void *a, const void *b) {
	const struct record *one = a, *other = b;
	return one->written < other->written ? -1 : one->written > other->written;
}

/* When a file of peers.d was written; false for anything but a record. */
static bool look_at_record(int folder, const char *name, struct record *record) {
	uint64_t node;
	struct stat info;
	if (strlen(name) != 15 || strcmp(name + 10, ".peer") != 0 || !parse_hex(name, 10, &node)) return false;
	if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode)) return false;
	record->written = info.st_mtime;
	memcpy(record->name, name, sizeof record->name);
	return true;
}

void state_forget_peers(const char *home, int64_t now) {
	char path[PATH_SIZE];
	snprintf(path, sizeof path, "%s/peers.d", home);
	DIR *folder = opendir(path);
	if (!folder) return;
	struct record *records = NULL, record;
	size_t count = 0, room = 0;
	for (const struct dirent *entry; (entry = readdir(folder));) {
		if (!look_at_record(dirfd(folder), entry->d_name, &record)) continue;
		if (record.written < now / 1000 - STATE_PEER_DAYS * DAY) {
			unlinkat(dirfd(folder), record.name, 0);
			continue;
		}
		if (count == room) {
			struct record *more = realloc(records, (room = room ? 2 * room : 256) * sizeof *more);
			if (!more) break;
			records = more;
		}
		records[count++] = record;
	}
	if (count > STATE_PEERS_MOST) {
		qsort(records, count, sizeof *records, by_age);
		for (size_t i = 0; i < count - STATE_PEERS_MOST; i++) unlinkat(dirfd(folder), records[i].name, 0);
	}
	free(records);
	closedir(folder);
}
