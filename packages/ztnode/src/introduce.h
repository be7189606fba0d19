/* What is put in the place of two functions of the core (introduce.c says why). */
#ifndef ZTNODE_INTRODUCE_H
#define ZTNODE_INTRODUCE_H

#include <stdbool.h>
#include <stdint.h>

#define INTRODUCE "_ZNK8ZeroTier4Peer9introduceEPvlRKNS_9SharedPtrIS0_EE"

#define SHOULD_UNITE "_ZN8ZeroTier6Switch12_shouldUniteElRKNS_7AddressES3_"

/* Peer::introduce and Switch::_shouldUnite, exported under their names. */
void peer_introduce(const void *peer, void *thread, int64_t now, const void *const *other) __asm__(INTRODUCE);
bool should_unite(void *own, int64_t now, const uint64_t *source, const uint64_t *destination) __asm__(SHOULD_UNITE);

#endif
