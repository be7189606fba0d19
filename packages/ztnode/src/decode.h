/* What is put in the place of three functions of the core (decode.c says why). */
#ifndef ZTNODE_DECODE_H
#define ZTNODE_DECODE_H

#include "core.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the core's own functions are there; else no node may be started. */
bool decode_works(void);

/* From now on there are no nodes but the configured remotes, which may ask less of the core (verbs.h). */
void decode_close(void);
bool decode_closed(void);

/* The numbers of the trusted paths that are configured, at most DECODE_TRUSTED; no other is believed. One thread. */
#define DECODE_TRUSTED 32
void decode_trust(const uint64_t *numbers, size_t count);

/* Whether the MAC of a packet that is signed only, such as a HELLO, was made with a key. */
bool decode_genuine(struct core_packet *packet, const unsigned char key[32]);

/* Whether a packet with the right MAC may be carried out; it is no longer compressed then (verbs.h). */
bool decode_may_pass(void *packet);

/* Packet::dearmor, IncomingPacket::tryDecode and Switch::doAnythingWaitingForPeer, exported under their names. */
bool decode_dearmor(void *packet, const void *key, const void *aes) __asm__(CORE_DEARMOR);
bool decode_try(void *packet, const void *runtime, void *thread, int32_t flow) __asm__(CORE_TRY_DECODE);
void decode_retry(void *own, void *thread, const void *peer) __asm__(CORE_RETRY);

#endif
