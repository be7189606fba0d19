/* Which multicast groups of a device a network is subscribed to: decisions alone, no I/O.
 *
 * Anybody on the router may join groups on the device, and each costs packets to every member. So there is a limit, and
 * none of those that the router lives by counts against it: ARP and the solicited-node groups of its own addresses, and the
 * groups of one link (224.0.0.0/24 and ff02::/120: routing protocols), of which there are not many.
 */
#ifndef ZTNODE_GROUPS_H
#define ZTNODE_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GROUPS_MOST 1024
#define GROUPS_OTHERS_MOST 256 /* those that anybody may have joined */
#define GROUPS_AT_ONCE 16      /* of those, fresh ones in a look: each is told to all members, who count (verbs.h) */
#define GROUPS_LOOKED_AT 2048  /* of a device, so that whoever joins more does not cost more time */
#define GROUPS_READ 32768      /* of all devices, likewise */

struct group {
	uint64_t mac;
	uint32_t adi;
	bool seen, other;
};
/* All zero at first. */
struct groups {
	struct group list[GROUPS_MOST];
	size_t count, others, fresh;
};

enum groups_answer { GROUPS_KNOWN, GROUPS_FRESH, GROUPS_LATER, GROUPS_FULL };

/* A look begins; groups that are not added until groups_drop are gone. */
void groups_begin(struct groups *groups);
/* A group that there is; `own`: for an address of the router itself. Fresh: subscribe to it. Full: there is no room. Later:
 * in another look. */
enum groups_answer groups_add(struct groups *groups, uint64_t mac, uint32_t adi, bool own);
/* One that is gone, to be unsubscribed from; false when there is none any more. */
bool groups_drop(struct groups *groups, struct group *gone);

#endif
