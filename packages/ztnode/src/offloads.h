/* The offloads of an instance, which local.conf may switch off one by one (settings.offloadDisable). */
#ifndef ZTNODE_OFFLOADS_H
#define ZTNODE_OFFLOADS_H

enum offloads {
	OFFLOAD_TSO = 1 << 0,          /* super-packets of TCP are read from the TAP */
	OFFLOAD_USO = 1 << 1,          /* super-packets of UDP are read from the TAP: Linux 6.2 */
	OFFLOAD_TCP_GRO = 1 << 2,      /* frames of TCP are joined before they are written to the TAP */
	OFFLOAD_UDP_GRO = 1 << 3,      /* frames of UDP are joined: Linux 6.2 */
	OFFLOAD_UNDERLAY_GSO = 1 << 4, /* packets to one address are sent as one message */
	OFFLOAD_UNDERLAY_GRO = 1 << 5, /* and are received as one */
	OFFLOAD_SHORTCUT = 1 << 6,     /* packets like the one before are not the core's work (shortcut.h) */
	OFFLOADS_UNDERLAY = OFFLOAD_UNDERLAY_GSO | OFFLOAD_UNDERLAY_GRO,
	OFFLOADS_UDP = OFFLOAD_USO | OFFLOAD_UDP_GRO,
	OFFLOADS_NODE = OFFLOADS_UNDERLAY | OFFLOAD_SHORTCUT, /* the others are of each TAP */
};
#define OFFLOADS 7
#define OFFLOADS_ALL ((1u << OFFLOADS) - 1)

/* Name of the offload with this bit number. */
const char *offload_name(unsigned int number);
/* The offload with this name; 0 where there is none. */
unsigned int offload_named(const char *name);

#endif
