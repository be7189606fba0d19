/* Packets sealed and opened by the versions of siv.h in the place of the core's (armor.c says how). */
#ifndef ZTNODE_ARMOR_H
#define ZTNODE_ARMOR_H

#include "siv.h"

#include <stdbool.h>
#include <stddef.h>

#define CORE_ARMOR "_ZN8ZeroTier6Packet5armorEPKvbPKNS_3AESE"

/* Packet::armor, exported under its name. */
void armor_seal(void *packet, const void *key, bool encrypt, const void *aes) __asm__(CORE_ARMOR);

/* A packet of ours as it leaves: of those without a MAC, as by a trusted path, armor_seal does not know. */
void armor_leaves_unsealed(const void *packet, unsigned int length);

/* Whether this packet with these keys is for siv.h; then *good is what Packet::dearmor would return. */
bool armor_open(void *packet, const void *aes, bool *good);

/* Packets that are no objects of the core, with a version of siv.h (armor_own), of more than 27 bytes: sealed; opened,
 * false where the MAC is wrong; and closed again to what they were, whatever opening them has said. */
bool armor_own(void);
void armor_seal_bytes(const struct siv_key keys[2], unsigned char *bytes, size_t length);
bool armor_open_bytes(const struct siv_key keys[2], unsigned char *bytes, size_t length);
void armor_close_bytes(const struct siv_key keys[2], unsigned char *bytes, size_t length);

/* Whether the core's own function is there; else no node may be started. */
bool armor_works(void);

/* Before packets flow: take this version, the best for NULL; false, and the core's, if this CPU does not have it. */
bool armor_select(const char *wanted);

/* Which version is used: "vaes", "sse", or "core". */
const char *armor_name(void);

#endif
