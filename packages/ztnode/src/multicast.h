/* What the core keeps of multicast, thrown away in time. */
#ifndef ZTNODE_MULTICAST_H
#define ZTNODE_MULTICAST_H

#include <stdint.h>

#define CORE_CLEAN "_ZN8ZeroTier11Multicaster5cleanEl"

/* Multicaster::clean, exported under its name. */
void multicast_clean(void *own, int64_t now) __asm__(CORE_CLEAN);

/* Throw away what has expired; `now` in milliseconds of the core's clock. The main thread. */
void multicast_look(int64_t now);

#endif
