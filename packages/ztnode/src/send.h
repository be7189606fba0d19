/* Packets to the underlay, gathered per thread: neighbours to one destination leave in one call, with segmentation offload
 * where the kernel has it. Every thread that may send calls io_flush when it has worked through a batch. */
#ifndef ZTNODE_SEND_H
#define ZTNODE_SEND_H

#include "underlay.h"

/* Gather a packet; `id` -1 means every socket of the family, and one that is closed any other of the family. False where
 * there is none, and without memory. */
bool send_packet(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to, const void *packet,
                 size_t length);
/* Room for a packet to be written there before anything else is sent by this thread; `id` is that of a socket. NULL where
 * send_packet would be false. */
unsigned char *send_place(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to, size_t length);
/* Send what this thread has gathered. */
void send_flush(void);

#endif
