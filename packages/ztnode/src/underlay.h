/* The sockets of the underlay: UDP on every address that the settings allow, all on one port. */
#ifndef ZTNODE_UNDERLAY_H
#define ZTNODE_UNDERLAY_H

#include "segments.h"
#include "settings.h"

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define UNDERLAY_SOCKETS 256 /* a router with 80 VLANs has three addresses on each */

struct underlay;

/* An open socket. */
struct binding {
	int fd;
	int64_t id;            /* positive, and never used twice, so that a path's socket cannot turn into another */
	char device[IFNAMSIZ]; /* empty: bound to none, and the routes say by which one a packet leaves */
	unsigned int index;    /* of the device: another one by the same name has another, and no use for this socket */
	struct sockaddr_storage address; /* with port */
	bool asks;                       /* by ARP for hosts of its link: no line from point to point does */
	struct segments segments;
};

/* Without some offloads (bits of enum offloads). NULL with errno set. */
struct underlay *underlay_open(unsigned int port, unsigned int offloads_off);
/* The offloads that it has: the kernel may refuse segments for a time (segments.h). */
unsigned int underlay_offloads(const struct underlay *underlay);
/* Once no other thread uses it. */
void underlay_close(struct underlay *underlay);

/* Bind to every address that the settings allow, drop sockets whose address has gone. True when something changed. `taken`
 * says whether an address could not be bound because another socket has the port there. The main thread. */
bool underlay_rebind(struct underlay *underlay, const struct settings *settings, bool *taken);
/* Addresses in use with port, at most `most`; returns how many. */
size_t underlay_addresses(struct underlay *underlay, struct sockaddr_storage *addresses, size_t most);
/* Whether a socket with this number is open. */
bool underlay_has(struct underlay *underlay, int64_t id);
/* Whether there are sockets of its family on other devices than that of the one with this number. */
bool underlay_has_choice(struct underlay *underlay, int64_t id);
/* The socket on the device by which the router's own route leads to an address, for UDP from the port of these sockets,
 * where the one with this number is on another device; 0 otherwise. Where that route leads by a device without sockets, the
 * route of what comes from the address of this socket counts. */
int64_t underlay_better(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to);
/* How many messages of several packets the kernel has refused; their packets went one by one. */
uint64_t underlay_refused(const struct underlay *underlay);

/* -- for those who send (send.h): no binding changes between the two calls, which must not be nested */

void underlay_hold(struct underlay *underlay);
void underlay_release(struct underlay *underlay);
/* Where a packet leaves: by its socket, or, where that is closed because its address has gone, by another over whose device
 * a route leads to where it goes. NULL where there is none, and where its socket is bound to no device and the routes lead
 * nowhere or by a device that is none of the underlay. */
struct binding *underlay_binding(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to);
void underlay_count_refusal(struct underlay *underlay);
/* Numbers of the sockets by whose devices a route leads to an address; returns how many. Takes the hold itself. */
size_t underlay_ids(struct underlay *underlay, const struct sockaddr_storage *to, int64_t ids[UNDERLAY_SOCKETS]);

/* -- for the thread that receives (receive.h) */

/* Readable after underlay_wake. */
int underlay_wake_fd(const struct underlay *underlay);
/* Whether the sockets are others than those that underlay_sockets returned last. */
bool underlay_changed(const struct underlay *underlay);
/* The sockets to read now; returns how many. Those before are closed where they are not among them. */
size_t underlay_sockets(struct underlay *underlay, int fds[UNDERLAY_SOCKETS], int64_t ids[UNDERLAY_SOCKETS]);
/* End its waiting. Any thread. */
void underlay_wake(struct underlay *underlay);

#endif
