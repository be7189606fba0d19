/* One joined network: its TAP, the thread that reads it, and the multicast groups it is subscribed to. */
#ifndef ZTNODE_NETWORK_H
#define ZTNODE_NETWORK_H

#include "core.h"

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

/* The largest MTU whose frames arrive. The core sends a packet in at most 7 pieces of 1432 bytes, 16 of them a header in
 * all but the first, and puts 38 bytes before a plain frame. Before a multicast frame it puts 53, so of these only the
 * largest are lost. */
#define NETWORK_MTU_MOST (1432 + 6 * (1432 - 16) - 38)

/* What a network needs of the node; it outlives all networks. */
struct network_host {
	core_node *core;
	const char *home;
	unsigned int offloads_off; /* of its TAP: bits of enum offloads */
};

struct network;

/* NULL without memory. */
struct network *network_new(const struct network_host *host, uint64_t nwid);
uint64_t network_id(const struct network *network);
/* Bring the TAP to a configuration. Runs under locks of the core. False with a line said. */
bool network_configure(struct network *network, const struct core_network *config);
/* Write a frame that the core has received. */
void network_deliver_frame(struct network *network, const unsigned char *frame, size_t length);
void network_deliver(struct network *network, uint64_t source, uint64_t destination, unsigned int type, const void *data,
                     unsigned int length);
/* Name of its TAP, empty while it has none. */
const char *network_device(const struct network *network);
/* The offloads that its TAP has: bits of enum offloads. */
unsigned int network_offloads(const struct network *network);
/* Subscribe to the groups of the device, and to ARP for each of its IPv4 addresses. The main thread. */
void network_look_at_groups(struct network *network);
/* Stop the thread and close the TAP. Nobody else may hold the network any more, nor the caller a lock of the core: the
 * thread may be inside it. */
void network_free(struct network *network);

#endif
