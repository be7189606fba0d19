#include "verbs.h"

#include "bucket.h"
#include "util.h"

#include <pthread.h>
#include <stddef.h>

enum { SOURCE = 13, VERB = 27, COMPRESSED = 0x80, VERB_MASK = 0x1f };
enum { IN_RE_VERB = 28, IN_RE_ID = 29, ANSWER_LEAST = 37 };
enum {
	VERB_NOP,
	VERB_HELLO,
	VERB_ERROR,
	VERB_OK,
	VERB_RENDEZVOUS = 5,
	VERB_FRAME,
	VERB_EXT_FRAME,
	VERB_ECHO,
	VERB_MULTICAST_LIKE,
	VERB_MULTICAST_GATHER = 0x0d,
	VERB_MULTICAST_FRAME,
	VERB_PUSH_DIRECT_PATHS = 0x10,
	VERB_ACK = 0x12,
	VERB_QOS_MEASUREMENT,
	VERB_PATH_NEGOTIATION = 0x16
};
#define BIT(verb) (1u << (verb))
#define OF_REMOTES                                                                                                         \
	(BIT(VERB_NOP) | BIT(VERB_HELLO) | BIT(VERB_ERROR) | BIT(VERB_OK) | BIT(VERB_RENDEZVOUS) | BIT(VERB_FRAME) |           \
	 BIT(VERB_EXT_FRAME) | BIT(VERB_ECHO) | BIT(VERB_MULTICAST_LIKE) | BIT(VERB_MULTICAST_GATHER) |                        \
	 BIT(VERB_MULTICAST_FRAME) | BIT(VERB_PUSH_DIRECT_PATHS) | BIT(VERB_ACK) | BIT(VERB_QOS_MEASUREMENT) |                 \
	 BIT(VERB_PATH_NEGOTIATION))
#define ANSWERS_OF_REMOTES                                                                                                 \
	(BIT(VERB_HELLO) | BIT(VERB_EXT_FRAME) | BIT(VERB_ECHO) | BIT(VERB_MULTICAST_GATHER) | BIT(VERB_MULTICAST_FRAME))

/* The core keeps up to 10 kB of such a packet for ten minutes. So many a second of each remote. It names its groups itself
 * once a minute. But it answers every frame that is sent to a group of fewer than 32 members: such answers must not use up
 * what lets it stay in its groups. */
#define MEMBERS_PER_S 2.0
#define MEMBERS_BURST 100.0
#define BUDGETS 256
static struct budget {
	struct bucket bucket;
	int64_t filled;
} budgets[2][2][BUDGETS]; /* by node; some share one */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool verbs_members(const unsigned char *packet, enum verbs what, bool sealed, int64_t now) {
	uint64_t node = number_at(packet + SOURCE, 5);
	pthread_mutex_lock(&lock);
	struct budget *budget =
		&budgets[what == VERBS_ANSWER][sealed][(node ^ node >> 8 ^ node >> 16 ^ node >> 24 ^ node >> 32) % BUDGETS];
	if (!budget->bucket.rate) budget->bucket = (struct bucket){MEMBERS_PER_S, MEMBERS_BURST, MEMBERS_BURST};
	else bucket_fill(&budget->bucket, (double)(now - budget->filled) / 1000);
	budget->filled = now;
	bool left = bucket_take(&budget->bucket);
	pthread_mutex_unlock(&lock);
	return left;
}

bool verbs_compressed(const unsigned char *packet, unsigned int length) {
	return length > VERB && (packet[VERB] & COMPRESSED) && (packet[VERB] & VERB_MASK) == VERB_OK;
}

enum verbs verbs_of(const unsigned char *packet, unsigned int length, bool closed) {
	if (length <= VERB) return VERBS_PASS; /* the core refuses it */
	unsigned int verb = packet[VERB] & VERB_MASK;
	bool answer = verb == VERB_OK || verb == VERB_ERROR;
	/* The core knows what it has sent by half of the packet's number, and its list of them begins as zeros. */
	if (answer && length >= ANSWER_LEAST && number_at(packet + IN_RE_ID, 4) == 0) return VERBS_REFUSED;
	if (!closed) return VERBS_PASS;
	if (!(OF_REMOTES & BIT(verb))) return VERBS_REFUSED;
	if (verb == VERB_MULTICAST_LIKE) return VERBS_MEMBERS;
	if (verb != VERB_OK || length < ANSWER_LEAST) return VERBS_PASS;
	unsigned int asked = packet[IN_RE_VERB];
	if (asked > VERB_MASK || !(ANSWERS_OF_REMOTES & BIT(asked))) return VERBS_REFUSED;
	return asked == VERB_MULTICAST_GATHER ? VERBS_MEMBERS : asked == VERB_MULTICAST_FRAME ? VERBS_ANSWER : VERBS_PASS;
}
