/* The networks of a node: joined and left by threads of the API, configured and fed by threads of the core.
 *
 * The core is given a pointer to a struct network and hands it back with every frame and configuration, also from a thread
 * that has got hold of its own object before the network was left. So such a pointer is compared, and used only while it
 * is in the list. */
#ifndef ZTNODE_NETWORKS_H
#define ZTNODE_NETWORKS_H

#include "network.h"

#define MAX_NETWORKS 64

struct networks;

/* NULL without memory. The host outlives it. */
struct networks *networks_new(const struct network_host *host);
/* False when there are MAX_NETWORKS, or no memory. One that is joined already is fine. */
bool networks_join(struct networks *networks, uint64_t nwid);
/* Leave: the core has forgotten it, its TAP and its marker in the home are gone. False when it is not joined. */
bool networks_leave(struct networks *networks, uint64_t nwid);
/* Name of the TAP of a network, empty when it has none. */
void networks_device(struct networks *networks, uint64_t nwid, char name[IFNAMSIZ]);
/* The offloads that the TAP of a network has, none when it has no TAP: bits of enum offloads. */
unsigned int networks_offloads(struct networks *networks, uint64_t nwid);
void networks_look_at_groups(struct networks *networks);
/* Close all TAPs; what the core says of its networks from now on is ignored. Nothing is left. */
void networks_close(struct networks *networks);
void networks_free(struct networks *networks);

/* -- callbacks of the core, from any thread of it and under its locks: they ask it nothing */

/* 0, or -1 when the TAP cannot be made. */
int networks_configure(struct networks *networks, const void *which, int operation, const struct core_network *config);
void networks_deliver_frame(struct networks *networks, const void *which, const unsigned char *frame, size_t length);
void networks_deliver(struct networks *networks, const void *which, uint64_t source, uint64_t destination,
                      unsigned int type, const void *data, unsigned int length);

#endif
