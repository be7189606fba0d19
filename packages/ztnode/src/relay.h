/* Who relays for peers without a direct path. */
#ifndef ZTNODE_RELAY_H
#define ZTNODE_RELAY_H

#include "core.h"

/* Look at the peers and choose: the root or moon with a usable path and the lowest latency. From the main loop. */
void relay_choose(const struct core_peers *peers);

#endif
