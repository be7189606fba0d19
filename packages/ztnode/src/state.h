/* The core's state objects as files of the home. */
#ifndef ZTNODE_STATE_H
#define ZTNODE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -1 when absent or larger than the buffer. A planet is never absent: then, and where a public one is outdated, it is the
 * newest public one (planet.h). */
int state_get(const char *home, int type, const uint64_t id[2], void *data, unsigned int size);
/* length -1 deletes. An identity that exists is never overwritten: false then, or when the disk refuses. */
bool state_put(const char *home, int type, const uint64_t id[2], const void *data, int length);

/* Of peers, the core writes one file each, and deletes none; on a controller's network anybody may become one. Delete those
 * of peers that have not been written for so long, and the oldest of too many. `now` in milliseconds of the wall clock. */
#define STATE_PEER_DAYS 30 /* as zerotier-one does */
#define STATE_PEERS_MOST 4096
void state_forget_peers(const char *home, int64_t now);

#endif
