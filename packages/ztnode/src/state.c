#include "state.h"

#include "core.h"
#include "planet.h"
#include "util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096

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
	free(content);
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
	free(before);
	if (same) return true;
	if (type == CORE_STATE_IDENTITY_SECRET && access(path, F_OK) == 0) return false;
	if (type == CORE_STATE_MOON || type == CORE_STATE_PEER || type == CORE_STATE_NETWORK_CONFIG) {
		char *slash = strrchr(path, '/');
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	if (write_file(path, data, (size_t)length, mode)) return true;
	say("cannot write %s: %s", path, strerror(errno));
	return !identity;
}
