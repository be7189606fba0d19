/* Paths that stand: on a closed link, none is displaced by an address that nobody has configured and that the core prefers
 * for no other reason than its scope.
 *
 * The core prefers private addresses to shared ones and those to global ones, at up to four times the latency, and every
 * address is one of a peer that answers of the peer come from. So whoever has one packet of a peer may send it from a
 * private address of his own and hand on what is sent there, both ways: then all traffic with that peer goes through him,
 * and he may drop it. Where members of a network find each other by themselves this is of use (two of them behind one NAT);
 * on a closed link addresses are configured, and others are wanted only where those do not answer. */
#ifndef ZTNODE_STANDING_H
#define ZTNODE_STANDING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For so long after a path was lost, a configured address, which may not have answered yet, keeps others out all the same.
 */
#define STANDING_MS 1000

/* What a peer has: the scope of its path that answers, or of the widest that is waited for; 0: neither. */
struct standing {
	uint64_t node;
	int scope;
};
struct standings {
	pthread_mutex_t lock;
	struct standing *list; /* in the order of their nodes */
	size_t count;
};

/* `path`: scope of the preferred path, 0: none; `answers`: it is not given up; `configured`: the widest scope of the
 * peer's configured addresses, 0: none; `down`: since when there is no path, 0: there is one. */
int standing_scope(int path, bool answers, int configured, int64_t down, int64_t now);

void standings_begin(struct standings *all);
/* Takes the list over. */
void standings_set(struct standings *all, struct standing *list, size_t count);
/* Whether an address of that scope may become one of the peer's. One that is configured always may, and stands at once. Any
 * thread. */
bool standings_admit(struct standings *all, uint64_t node, int scope, bool configured);
void standings_end(struct standings *all);

#endif
