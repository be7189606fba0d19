/* The addresses behind other bridges of a network: how many of them the core may learn. */
#ifndef ZTNODE_BRIDGES_H
#define ZTNODE_BRIDGES_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_LEARN "_ZN8ZeroTier7Network16learnBridgeRouteERKNS_3MACERKNS_7AddressE"

/* Whether the core's own function is there; else no node may be started. */
bool bridges_works(void);

/* Network::learnBridgeRoute, exported under its name. */
void bridges_learn(void *network, const uint64_t *mac, const uint64_t *bridge) __asm__(CORE_LEARN);

#endif
