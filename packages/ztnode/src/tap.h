/* The overlay: a TAP with a virtio-net header, super-packets in both directions where the kernel has them. */
#ifndef ZTNODE_TAP_H
#define ZTNODE_TAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct tap;

typedef void frame_handler(void *context, const unsigned char *frame, size_t length);

/* Make a TAP with this name, or with a generated one where it is empty or taken, without some offloads (bits of enum
 * offloads). NULL with a line said. */
struct tap *tap_open(const char *name, const unsigned char mac[6], unsigned int mtu, unsigned int offloads_off);
/* The offloads that it has. */
unsigned int tap_offloads(const struct tap *tap);
const char *tap_name(const struct tap *tap);
bool tap_set_mtu(struct tap *tap, unsigned int mtu);
/* Write a frame; gathered where the thread has called tap_gather_here, at once otherwise. */
void tap_write(struct tap *tap, const unsigned char *frame, size_t length);
/* Read batches until `stop` is set and tap_wake is called, or the device is deleted by others; `after_batch` is called with
 * NULL. False without memory. */
bool tap_receive(struct tap *tap, frame_handler *handler, void *context, void (*after_batch)(void *),
                 const atomic_bool *stop);
void tap_wake(struct tap *tap);
/* The device goes at once; what other threads have gathered for it is lost. */
void tap_close(struct tap *tap);

/* Frames that this thread writes are gathered from now on, to be joined; the thread calls io_flush. Without memory they are
 * written at once. */
void tap_gather_here(void);
/* Before such a thread ends. */
void tap_gather_end(void);
/* Write the frames that this thread has gathered. */
void tap_flush(void);

#endif
