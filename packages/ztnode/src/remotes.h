/* Who a controller-free link consists of: the world records in the home of a node. */
#ifndef ZTNODE_REMOTES_H
#define ZTNODE_REMOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REMOTES_MAX 1024
#define PUBLIC_KEY 64

struct remote_identity {
	uint64_t node;
	unsigned char key[PUBLIC_KEY];
};

/* Whether a planet record is one of a controller-free link: the node alone is its root. */
bool planet_is_own(const unsigned char *record, size_t length, uint64_t self);
/* The node that a moon record of such a link is about; false for any other record. */
bool moon_remote(const unsigned char *record, size_t length, struct remote_identity *remote);
/* The remotes of the node in a home, at most `most`; -1 when its link is not controller-free, or has moons of somebody
 * else too. A remote whose record is damaged or cannot be read is left out, and the journal says so: without it the
 * link must not become one that trusts every node. */
int remotes_read(const char *home, uint64_t self, struct remote_identity *remotes, size_t most);

#endif
