/* The newest record of ZeroTier's public roots. */
#ifndef ZTNODE_PLANET_H
#define ZTNODE_PLANET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a record is of the public planet and older than the newest. Private planets are told by their update key:
 * many have the public one's id. */
bool planet_outdated(const unsigned char *record, size_t length);
const unsigned char *planet_newest(size_t *length);

#endif
