/* Segmentation and joining of TCP and UDP in user space, so that the TAP carries super-packets; no I/O.
 *
 * A TAP with a virtio-net header hands over up to 64 KiB of one flow at once. ZeroTier's core takes frames of
 * at most the network's MTU, so they are cut here, and what arrives is joined again before it is written.
 */
#ifndef ZTNODE_OFFLOAD_H
#define ZTNODE_OFFLOAD_H

#include "headers.h"

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Since Linux 6.2: UDP in pieces of gso_size bytes, each with a header of its own. */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define FRAME_MAX 65600

typedef void frame_sink(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length);

/* Cut what was read from the TAP into frames for the core: completes the checksum, or makes one frame per
 * segment. `frame` is changed. False for a malformed header, and then nothing was given to the sink. */
bool frame_split(const struct virtio_net_hdr *header, unsigned char *frame, size_t length, frame_sink *sink, void *context);

/* Frames of some flows that wait to be joined. Zeroed memory is an empty one that joins nothing. */
#define JOIN_FLOWS 32
struct join_flow {
	bool used;
	bool closed; /* nothing may be appended any more */
	unsigned int count;
	struct headers at;
	size_t segment; /* payload bytes of all but the last */
	size_t length;  /* of data */
	uint32_t next;  /* TCP sequence number that continues it */
	unsigned char data[FRAME_MAX];
};
struct joiner {
	bool tcp, udp; /* what is joined */
	struct join_flow flows[JOIN_FLOWS];
	unsigned int order[JOIN_FLOWS];
	unsigned int used;
};

/* Take a frame for the TAP: kept to be joined, or given to the sink at once. Frames of a flow keep their order. */
void join_frame(struct joiner *joiner, const unsigned char *frame, size_t length, frame_sink *sink, void *context);
/* Give everything that waits to the sink. */
void join_flush(struct joiner *joiner, frame_sink *sink, void *context);

#endif
