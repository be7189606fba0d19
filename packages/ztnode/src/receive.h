/* Packets from the underlay, in batches, joined by the kernel where it can (UDP_GRO) and taken apart here. */
#ifndef ZTNODE_RECEIVE_H
#define ZTNODE_RECEIVE_H

#include "underlay.h"

/* `now` is when the batch was received, in milliseconds of the core's clock; the packet may be changed. */
typedef void packet_handler(void *context, int64_t now, int64_t id, const struct sockaddr_storage *from,
                            unsigned char *packet, size_t length);

/* Receive until `stop` is set and underlay_wake is called; `after_batch` is called with NULL. False without memory. */
bool receive_packets(struct underlay *underlay, packet_handler *handler, void *context, void (*after_batch)(void *),
                     const atomic_bool *stop);

#endif
