/* When a path to a peer is doubted, given up, and looked for again: decisions alone, no I/O.
 *
 * The core keeps to the path that was best for up to 20 s after its last packet, and uses one for up to 243 s when it
 * has no other. So a peer is watched from outside: a path that gives no answer is asked, and when it stays silent the
 * peer's paths of that kind are not used until they answer. All times are milliseconds of the core's clock.
 */
#ifndef ZTNODE_RECOVERY_H
#define ZTNODE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#define RECOVERY_SILENT 1000 /* unanswered for so long: ask */
#define RECOVERY_HINTED 250  /* the same where the peer was heard from another address in the last */
#define RECOVERY_HINT 2000
#define RECOVERY_OVERTAKEN 500 /* another path of the peer was heard so much later: ask, once per RECOVERY_SILENT */
#define RECOVERY_IDLE 5000     /* a configured peer that says nothing is asked so often; it keeps NATs open too */
#define RECOVERY_AGAIN 300     /* between two questions */
#define RECOVERY_ANSWER 600    /* time for an answer, and more on a long way: one and a half times its latency, and … */
#define RECOVERY_WORK 200
#define RECOVERY_PATIENCE 3000 /* but no more: a queue may have made it so long */
#define RECOVERY_EAGER 500     /* between two searches at first … */
#define RECOVERY_EAGER_FOR 10000
#define RECOVERY_STEADY 2000 /* … and later */
#define RECOVERY_ASTRAY 5000 /* the same while another path serves than those that are configured */

/* The path that the core prefers for a peer; `found` is false where it has none. */
struct preferred_path {
	bool found;
	bool gone;   /* the socket that it belongs to is closed */
	bool astray; /* it leads elsewhere than to where the peer is configured to be */
	int64_t sent, received;
	int64_t heard; /* last, over any path that the core has of the peer */
	int latency;   /* of the peer, -1 when unknown */
};

/* What is kept of a peer between two looks; all zero at first. */
struct watch {
	uint64_t node;
	int64_t received, waiting; /* last packet seen, and since when something sent after it is unanswered */
	int64_t asked, asked_last; /* first and latest question, 0: none open */
	int64_t down, searched;    /* without a path since, and latest search; 0: never */
	int64_t hinted;            /* last heard from another address; 0: never */
};

enum {
	RECOVERY_ASK = 1,    /* HELLO over the preferred path */
	RECOVERY_RESET = 2,  /* the peer's paths like the preferred one are not to be used until they speak again */
	RECOVERY_SEARCH = 4, /* HELLO to everywhere that the peer may be */
	RECOVERY_TRY = 8,    /* HELLO to where it is configured to be */
};

/* What to do about a peer now: a sum of the above. `configured`: we know addresses of it; `hinted`: it was heard from
 * an address that is none of its paths'. */
int recovery_look(struct watch *watch, const struct preferred_path *path, bool configured, bool hinted, int64_t now);
/* Whether the preferred path works, as far as is known: no question over it is open, or none that should have an answer. */
bool recovery_trusts(const struct watch *watch, const struct preferred_path *path, int64_t now);

#endif
