#include "guard.h"

#include "decode.h"
#include "identity.h"
#include "remotes.h"
#include "util.h"
#include "verbs.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define KEY_SIZE 32
#define LOOK_MS 10000
#define SAY_MS 60000
#define SAY_LEAST 1000  /* packets kept out in that time that are worth a line */
#define SLACK (4 << 20) /* bytes that are free and not given back, at most */

struct guard {
	struct gate *gate;
	unsigned char (*keys)[KEY_SIZE]; /* agreed with each remote */
	size_t count;
	struct core_packet packet; /* of the thread that receives */
	int64_t looked, said;
	uint64_t told; /* packets kept out by then */
};

static bool authentic(void *context, size_t remote, const unsigned char *packet, size_t length) {
	struct guard *guard = context;
	if (length > CORE_PACKET_MAX) return false;
	memcpy(guard->packet.bytes, packet, length);
	guard->packet.length = (unsigned int)length;
	return decode_genuine(&guard->packet, guard->keys[remote]);
}

static bool close_gate(struct guard *guard, const struct remote_identity *remotes, size_t count, const char *secret) {
	unsigned char private_key[64];
	uint64_t *nodes = calloc(count + 1, sizeof *nodes);
	guard->keys = calloc(count + 1, sizeof *guard->keys);
	bool good = nodes && guard->keys && identity_private_key(secret, private_key);
	for (size_t i = 0; good && i < count; i++) {
		nodes[i] = remotes[i].node;
		core_agree(private_key, remotes[i].key, guard->keys[i], KEY_SIZE);
	}
	explicit_bzero(private_key, sizeof private_key);
	guard->count = count;
	good = good && gate_close(guard->gate, nodes, count, authentic, guard);
	good = good && verbs_know(nodes, count);
	if (good) decode_close();
	free(nodes);
	return good;
}

struct guard *guard_new(const char *home, uint64_t self, const char *secret_identity) {
	uint64_t seed = 0;
	struct remote_identity *remotes = calloc(REMOTES_MAX, sizeof *remotes);
	struct guard *guard = calloc(1, sizeof *guard);
	(void)!getrandom(&seed, sizeof seed, 0);
	bool good = remotes && guard;
	if (good) guard->gate = gate_new(self, seed);
	good = good && guard->gate;
	int count = good ? remotes_read(home, self, remotes, REMOTES_MAX) : -1;
	if (count >= 0) good = close_gate(guard, remotes, (size_t)count, secret_identity);
	free(remotes);
	if (good) return guard;
	guard_free(guard);
	return NULL;
}

void guard_free(struct guard *guard) {
	if (!guard) return;
	gate_free(guard->gate);
	if (guard->keys) explicit_bzero(guard->keys, guard->count * sizeof *guard->keys);
	free(guard->keys);
	free(guard);
}

enum gate_verdict guard_pass(struct guard *guard, const struct sockaddr_storage *from, const unsigned char *packet,
                             size_t length, int64_t now) {
	return gate_pass(guard->gate, from, packet, length, now);
}

void guard_know(struct guard *guard, const struct core_peers *peers, const struct settings *settings) {
	size_t most = settings->try_count, count = 0;
	for (unsigned long i = 0; i < peers->count; i++) most += peers->peers[i].path_count;
	struct sockaddr_storage *places = calloc(most + 1, sizeof *places);
	if (!places) return;
	for (size_t i = 0; i < settings->try_count; i++) places[count++] = settings->tries[i].address;
	for (unsigned long i = 0; i < peers->count; i++)
		for (unsigned int k = 0; k < peers->peers[i].path_count && k < CORE_MAX_PATHS; k++)
			places[count++] = peers->peers[i].paths[k].address;
	gate_know(guard->gate, places, count);
	free(places);
}

/* What strangers have cost is free again half a minute later, but lies between what is used. */
static void give_back(void) {
	struct mallinfo2 info = mallinfo2();
	if (info.fordblks > SLACK) malloc_trim(0);
}

void guard_look(struct guard *guard, int64_t now) {
	if (now - guard->looked < LOOK_MS) return;
	guard->looked = now;
	give_back();
	if (now - guard->said < SAY_MS) return;
	guard->said = now;
	struct gate_counts counts = gate_counts(guard->gate);
	uint64_t all = counts.foreign + counts.forged + counts.strangers;
	if (all - guard->told >= SAY_LEAST)
		say("%llu packets from unknown senders were dropped", (unsigned long long)(all - guard->told));
	guard->told = all;
}

struct gate_counts guard_counts(const struct guard *guard) {
	return gate_counts(guard->gate);
}
bool guard_closed(const struct guard *guard) { return gate_closed(guard->gate); }
