/* Any bytes as files of a home that the core asks for: planet, moon, peer, network; no more than there is room for. */
#include "core.h"
#include "planet.h"
#include "state.h"
#include "util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char home[64];

static void remove_home(void) {
	char command[96];
	snprintf(command, sizeof command, "rm -r %s", home);
	if (system(command)) abort();
}

static void make_home(void) {
	strcpy(home, "/dev/shm/ztnode-fuzz-XXXXXX");
	if (!mkdtemp(home) || atexit(remove_home)) abort();
	const char *const names[] = {"moons.d", "peers.d", "networks.d"};
	for (int i = 0; i < 3; i++) {
		char path[96];
		snprintf(path, sizeof path, "%s/%s", home, names[i]);
		if (mkdir(path, 0700) < 0) abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	if (!*home) make_home();
	if (size < 2) return 0;
	int type = data[0] % 10;
	unsigned int room = 1u << (data[1] % 16);
	uint64_t id[2] = {0x77, 0};
	data += 2;
	size -= 2;
	if (type != CORE_STATE_IDENTITY_SECRET && !state_put(home, type, id, data, (int)size)) abort();
	unsigned char *into = malloc(room);
	int got = state_get(home, type, id, into, room);
	size_t newest;
	const unsigned char *record = planet_newest(&newest);
	bool given = got == (int)newest && memcmp(into, record, newest) == 0;
	if (got >= 0 && !given && ((size_t)got != size || memcmp(into, data, size) != 0)) abort();
	if (got < 0 && type >= CORE_STATE_IDENTITY_PUBLIC && type <= CORE_STATE_NETWORK_CONFIG &&
	    type != CORE_STATE_IDENTITY_SECRET && type != CORE_STATE_PLANET && size <= room)
		abort();
	free(into);
	unsigned char *exact = malloc(size); /* a record that ends where its memory does */
	memcpy(exact, data, size);
	planet_outdated(exact, size);
	free(exact);
	state_put(home, type, id, NULL, -1);
	return 0;
}
