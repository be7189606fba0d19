#include "verbs.h"

#include "asked.h"
#include "bucket.h"
#include "credentials.h"
#include "util.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
#define ANSWERS_OF_REMOTES (BIT(VERB_HELLO) | BIT(VERB_EXT_FRAME) | BIT(VERB_ECHO) | BIT(VERB_MULTICAST_GATHER))

/* How many groups, of those that a remote is in, the core is told of. It keeps each for ten minutes, and searches those
 * that have the same hash, which the remote may choose. A remote names all of its groups once a minute. */
#define GROUPS_PER_S 40.0
#define GROUPS_BURST 4096.0
enum { HEADER = 28, GROUP = 18 };
/* As often it may ask for members, and answer such questions. That is counted apart: a node asks again for each frame to a
 * group of which it knows none, and copies of a question come without it, which must leave its groups what these have. */
/* Each has us send two packets to where it says. Who relays introduces two nodes twice a minute, by up to six of them. */
#define MEETINGS_PER_S 4.0
#define MEETINGS_BURST 128.0
/* Each has the core make an entry for whomever it names, before it looks at the signature. */
#define REVOCATIONS_PER_S 1.0
#define REVOCATIONS_BURST 256.0
#define NODES 2048 /* twice as many as a link has remotes */
static struct budget {
	uint64_t node;
	struct bucket groups, questions, answers, meetings, revocations;
	int64_t filled;
} budgets[2][NODES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Where all are in use, the one that was not for the longest time is taken. */
static struct budget *budget_of(struct budget *table, uint64_t node, int64_t now) {
	size_t at = (size_t)(node * 0x9e3779b97f4a7c15ULL >> 40);
	struct budget *oldest = &table[at % NODES];
	for (size_t i = 0; i < NODES; i++) {
		struct budget *budget = &table[(at + i) % NODES];
		if (budget->node == node) return budget;
		if (!budget->node || budget->filled < oldest->filled) oldest = budget;
		if (!budget->node) break;
	}
	const struct bucket groups = {GROUPS_PER_S, GROUPS_BURST, GROUPS_BURST},
						meetings = {MEETINGS_PER_S, MEETINGS_BURST, MEETINGS_BURST},
						revocations = {REVOCATIONS_PER_S, REVOCATIONS_BURST, REVOCATIONS_BURST};
	*oldest = (struct budget){node, groups, groups, groups, meetings, revocations, now};
	return oldest;
}

bool verbs_in_budget(const unsigned char *packet, unsigned int length, enum verbs what, bool sealed, int64_t now) {
	pthread_mutex_lock(&lock);
	struct budget *budget = budget_of(budgets[sealed], number_at(packet + SOURCE, 5), now);
	double seconds = (double)(now - budget->filled) / 1000;
	bucket_fill(&budget->groups, seconds), bucket_fill(&budget->questions, seconds);
	bucket_fill(&budget->answers, seconds), bucket_fill(&budget->meetings, seconds);
	bucket_fill(&budget->revocations, seconds);
	budget->filled = now;
	unsigned int groups = 1 + (length - HEADER) / GROUP, revocations = 0;
	if (what == VERBS_REVOKE) (void)credentials_of(packet, length, &revocations);
	bool left = what == VERBS_MEMBERS    ? bucket_take_some(&budget->groups, groups)
	            : what == VERBS_ANSWER   ? bucket_take_some(&budget->answers, groups)
	            : what == VERBS_REVOKE   ? bucket_take_some(&budget->revocations, revocations)
	            : what == VERBS_QUESTION ? bucket_take(&budget->questions)
	                                     : bucket_take(&budget->meetings);
	pthread_mutex_unlock(&lock);
	return left;
}

/* -- members of a group */

enum { DESTINATION = 8, MEMBER_COUNT = 59, MEMBERS = 61, ADDRESS = 5, MEMBERS_MOST = 64 };
static uint64_t *remotes;
static size_t remote_count;

bool verbs_know(const uint64_t *nodes, size_t count) {
	uint64_t *copy = calloc(count + 1, sizeof *copy);
	if (!copy) return false;
	memcpy(copy, nodes, count * sizeof *copy);
	free(remotes);
	remotes = copy, remote_count = count;
	return true;
}

static bool is_known(uint64_t node) {
	for (size_t i = 0; i < remote_count; i++)
		if (remotes[i] == node) return true;
	return false;
}

/* Whether an answer names this node and remotes alone. The core serves 32 members of a group, so that as many that are made
 * up would be served in place of all that there are. */
static bool names_known_members(const unsigned char *packet, unsigned int length) {
	if (length < MEMBERS) return false;
	uint64_t count = number_at(packet + MEMBER_COUNT, 2), self = number_at(packet + DESTINATION, ADDRESS);
	if (count > MEMBERS_MOST || length < MEMBERS + ADDRESS * count) return false;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t node = number_at(packet + MEMBERS + ADDRESS * i, ADDRESS);
		if (node != self && !is_known(node)) return false;
	}
	return true;
}

/* Those of which more is looked at than the verb. */
#define LOOKED_INTO (BIT(VERB_OK) | BIT(VERB_MULTICAST_LIKE) | BIT(VERB_MULTICAST_GATHER) | CREDENTIALS_VERBS)

bool verbs_compressed(const unsigned char *packet, unsigned int length) {
	return length > VERB && (packet[VERB] & COMPRESSED) && (LOOKED_INTO & BIT(packet[VERB] & VERB_MASK));
}

/* Whether it answers, with members of a group, what its sender was asked. */
static bool is_asked(const unsigned char *packet, unsigned int length) {
	return length >= ANSWER_LEAST + 8 &&
	       asked_of(number_at(packet + SOURCE, 5), packet[IN_RE_VERB], (uint32_t)number_at(packet + IN_RE_ID, 4),
	                number_at(packet + ANSWER_LEAST, 8));
}

enum verbs verbs_of(const unsigned char *packet, unsigned int length, bool closed) {
	if (length <= VERB) return VERBS_PASS; /* the core refuses it */
	unsigned int verb = packet[VERB] & VERB_MASK;
	bool answer = verb == VERB_OK || verb == VERB_ERROR;
	/* The core knows what it has sent by half of the packet's number, and its list of them begins as zeros. */
	if (answer && length >= ANSWER_LEAST && number_at(packet + IN_RE_ID, 4) == 0) return VERBS_REFUSED;
	if (closed && !(OF_REMOTES & BIT(verb))) return VERBS_REFUSED;
	unsigned int revocations;
	enum credentials whose = credentials_of(packet, length, &revocations);
	if (whose != CREDENTIALS_OWN) return whose == CREDENTIALS_REVOKE ? VERBS_REVOKE : VERBS_REFUSED;
	if (verb == VERB_MULTICAST_LIKE) return VERBS_MEMBERS;
	if (verb == VERB_MULTICAST_GATHER) return VERBS_QUESTION;
	if (verb == VERB_RENDEZVOUS) return closed ? VERBS_MEETING : VERBS_PASS;
	if (verb != VERB_OK || length < ANSWER_LEAST) return VERBS_PASS;
	unsigned int asked = packet[IN_RE_VERB];
	if (closed && (asked > VERB_MASK || !(ANSWERS_OF_REMOTES & BIT(asked)))) return VERBS_REFUSED;
	if (asked != VERB_MULTICAST_GATHER && asked != VERB_MULTICAST_FRAME) return VERBS_PASS;
	if (!is_asked(packet, length) || (closed && !names_known_members(packet, length))) return VERBS_REFUSED;
	return VERBS_ANSWER;
}
