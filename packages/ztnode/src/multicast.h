/* What the core keeps of multicast, thrown away in time. */
#ifndef ZTNODE_MULTICAST_H
#define ZTNODE_MULTICAST_H

#include <stdint.h>

/* Multicaster::clean, exported under its name. */
void multicast_clean(void *own, int64_t now) __asm__("_ZN8ZeroTier11Multicaster5cleanEl");

/* Throw away what has expired; `now` in milliseconds of the core's clock. The main thread. */
void multicast_look(int64_t now);

#endif
