/* Every allocation of our own is refused once (those of libjansson 2.14 are not: it crashes then): what needed it says so,
 * nothing is lost, and nothing is used that is not there. */
#include "gate.h"
#include "settings.h"
#include "state.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *memory);

static long calls, refused_call, held;

static bool refuses(void) {
	if (++calls != refused_call) return false;
	errno = ENOMEM;
	return true;
}

static void *counted(void *memory) {
	held += memory != NULL;
	return memory;
}

void *__wrap_malloc(size_t size) { return refuses() ? NULL : counted(__real_malloc(size)); }
void *__wrap_calloc(size_t count, size_t size) { return refuses() ? NULL : counted(__real_calloc(count, size)); }

void __wrap_free(void *memory) {
	held -= memory != NULL;
	__real_free(memory);
}

/* Run with the first allocation refused, then the second, and so on until none is left. */
static void each(bool run(void), long least) {
	for (refused_call = 1;; refused_call++) {
		calls = 0;
		bool good = run();
		assert(held == 0);
		if (calls < refused_call) {
			assert(good && calls >= least);
			break;
		}
		assert(!good);
	}
	refused_call = 0;
}

static bool settings(void) {
	static const char text[] = "{\"settings\": {\"primaryPort\": 9994, \"bind\": [\"192.0.2.1\"]},"
							   " \"physical\": {\"10.0.0.0/8\": {\"blacklist\": true}},"
							   " \"virtual\": {\"89e92ceee5\": {\"try\": [\"192.0.2.9/9993\"]}}}";
	char reason[80] = "";
	struct settings *made = settings_parse(text, strlen(text), reason, sizeof reason);
	assert(!made == !!*reason);
	bool good =
		made && made->primary_port == 9994 && made->bind_count == 1 && made->physical_count == 1 && made->try_count == 1;
	settings_free(made);
	return good;
}

static bool authentic(void *context, size_t remote, const unsigned char *packet, size_t length) {
	(void)context, (void)remote, (void)packet, (void)length;
	return true;
}

static bool gate(void) {
	struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(9993), .sin_addr.s_addr = htonl(0xc0000201)};
	struct sockaddr_storage from = {0};
	memcpy(&from, &place, sizeof place);
	struct gate *made = gate_new(1, 7);
	bool good = made && gate_close(made, (const uint64_t[]){2}, 1, authentic, NULL);
	long before = held;
	if (good) gate_know(made, &from, 1);
	good = good && held == before + 1;
	gate_free(made);
	return good;
}

static char home[] = "/tmp/ztnode-memory-XXXXXX";

static bool state(void) {
	char data[2000];
	return state_get(home, 1, (const uint64_t[2]){0}, data, sizeof data) > 0;
}

static void write_home(const char *name, const void *data, size_t length) {
	char path[80];
	snprintf(path, sizeof path, "%s/%s", home, name);
	FILE *file = fopen(path, "w");
	assert(file && fwrite(data, 1, length, file) == length);
	fclose(file);
}

int main(void) {
	each(settings, 3);
	each(gate, 3);
	assert(mkdtemp(home));
	write_home("identity.public", "89e92ceee5:0:ab", 15);
	each(state, 1);
	char path[80];
	snprintf(path, sizeof path, "%s/identity.public", home);
	unlink(path);
	rmdir(home);
	puts("memory: good");
	return 0;
}
