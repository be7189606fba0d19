/* What is put in the place of a function of the core (introduce.c says why). */
#ifndef ZTNODE_INTRODUCE_H
#define ZTNODE_INTRODUCE_H

#include <stdint.h>

#define INTRODUCE "_ZNK8ZeroTier4Peer9introduceEPvlRKNS_9SharedPtrIS0_EE"

/* Peer::introduce, exported under its name. */
void peer_introduce(const void *peer, void *thread, int64_t now, const void *const *other) __asm__(INTRODUCE);

#endif
