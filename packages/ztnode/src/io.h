/* The one interface between the node and the machine's network: frames of a TAP, packets of the underlay.
 *
 * Both directions come in batches. What is sent is gathered per thread and goes out with io_flush, which every
 * thread calls when it has worked through a batch.
 */
#ifndef ZTNODE_IO_H
#define ZTNODE_IO_H

#include "settings.h"

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* -- underlay: UDP */

struct underlay;

typedef void packet_handler(void *context, int64_t socket, const struct sockaddr_storage *from, const unsigned char *packet,
                            size_t length);

struct underlay *underlay_open(unsigned int port);
/* Bind to every address that the settings allow, drop sockets whose address has gone. True when something
 * changed. False in *bound when an address could not be bound because the port is taken. */
bool underlay_rebind(struct underlay *underlay, const struct settings *settings, bool *taken);
/* Addresses in use with port, at most `most`; returns how many. */
size_t underlay_addresses(struct underlay *underlay, struct sockaddr_storage *addresses, size_t most);
/* Whether a socket with this number is open. */
bool underlay_has(struct underlay *underlay, int64_t socket);
/* Gather a packet; socket -1 means every socket of the family, and one that is closed any other of the family.
 * False when there is none. */
bool underlay_send(struct underlay *underlay, int64_t socket, const struct sockaddr_storage *to, const void *packet,
                   size_t length);
/* How many messages of several packets the kernel has refused; their packets went one by one. */
uint64_t underlay_refused(struct underlay *underlay);
/* Receive batches until `stop` is set and underlay_wake is called. */
void underlay_receive(struct underlay *underlay, packet_handler *handler, void *context, void (*after_batch)(void *),
                      const atomic_bool *stop);
void underlay_wake(struct underlay *underlay);
void underlay_close(struct underlay *underlay);

/* -- overlay: a TAP */

struct tap;

typedef void frame_handler(void *context, const unsigned char *frame, size_t length);

/* Make a TAP with this name, or with a generated one where it is empty or taken. NULL with a line said. */
struct tap *tap_open(const char *name, const unsigned char mac[6], unsigned int mtu);
const char *tap_name(const struct tap *tap);
bool tap_set_mtu(struct tap *tap, unsigned int mtu);
/* Write a frame; gathered where the thread has called tap_gather_here, at once otherwise. */
void tap_write(struct tap *tap, const unsigned char *frame, size_t length);
/* Read batches until `stop` is set and tap_wake is called. */
void tap_receive(struct tap *tap, frame_handler *handler, void *context, void (*after_batch)(void *),
                 const atomic_bool *stop);
void tap_wake(struct tap *tap);
/* The device goes at once; what other threads have gathered for it is lost. */
void tap_close(struct tap *tap);

/* Frames that this thread writes are gathered from now on, to be joined; the thread calls io_flush. */
void tap_gather_here(void);
/* Before such a thread ends. */
void tap_gather_end(void);
/* Write the frames that this thread has gathered. */
void tap_flush(void);
/* Write the frames and send the packets that this thread has gathered. */
void io_flush(void *unused);

#endif
