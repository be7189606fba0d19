/* Introductions of peers to each other, by this node that relays between them (introduce.c says why not by the core). */
#ifndef ZTNODE_INTRODUCE_H
#define ZTNODE_INTRODUCE_H

#include "core.h"

#include <stdbool.h>
#include <stdint.h>

#define INTRODUCE "_ZNK8ZeroTier4Peer9introduceEPvlRKNS_9SharedPtrIS0_EE"
#define SHOULD_UNITE "_ZN8ZeroTier6Switch12_shouldUniteElRKNS_7AddressES3_"

/* Peer::introduce and Switch::_shouldUnite, exported under their names. */
void peer_introduce(const void *peer, void *thread, int64_t now, const void *const *other) __asm__(INTRODUCE);
bool should_unite(void *own, int64_t now, const uint64_t *source, const uint64_t *destination) __asm__(SHOULD_UNITE);

/* Whether somebody is to be introduced. Any thread. */
bool introduce_due(void);
/* Tell each of them where the other is: of each IP version and scope the best pair of addresses; where some of both are
 * configured, of those alone. From the main loop, with no lock of the core held; `self` is this node. The peers are those
 * who may be introduced until the next look. */
void introduce_look(const struct core_peers *peers, uint64_t self, int64_t now);
/* Where a packet of this length that the core sends now has to go, if it is one of these. */
void introduce_redirect(unsigned int length, int64_t *socket, const struct sockaddr_storage **to);

#endif
