/* What the core keeps of multicast and of a network's members, thrown away in time. */
#ifndef ZTNODE_EXPIRY_H
#define ZTNODE_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_CLEAN "_ZN8ZeroTier11Multicaster5cleanEl"
#define CORE_NETWORK_CLEAN "_ZN8ZeroTier7Network5cleanEv"
#define CORE_REVOKE "_ZN8ZeroTier7Network13addCredentialEPvRKNS_7AddressERKNS_10RevocationE"
#define CORE_REQUEST "_ZN8ZeroTier7Network20requestConfigurationEPv"

/* Whether the core's own functions are there; else no node may be started. */
bool expiry_works(void);

/* Multicaster::clean, Network::requestConfiguration and Network::addCredential, exported under their names. */
void expiry_clean(void *own, int64_t now) __asm__(CORE_CLEAN);
void expiry_request(void *network, void *thread) __asm__(CORE_REQUEST);
int expiry_revoke(void *network, void *thread, const void *from, const void *revocation) __asm__(CORE_REVOKE);

/* Throw away what has expired of multicast; `now` in milliseconds of the core's clock. The main thread. */
void expiry_look(int64_t now);

#endif
