/* The rules of a network, as far as it matters whether they look into frames. */
#ifndef ZTNODE_RULES_H
#define ZTNODE_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* What of a frame decides whether the core lets it pass. */
enum rules_look {
	RULES_AT_FRAMES = 0, /* any of it, or nobody knows */
	RULES_AT_NODES,      /* the nodes alone that it comes from and goes to */
	RULES_AT_TYPES,      /* these and its EtherType: as Central's first rules, which drop what is no IP and no ARP */
};

/* By this network configuration (the text of networks.d/<network id>.conf). Not RULES_AT_FRAMES is one whose rules match
 * nothing else, do nothing but drop and accept, and end with accept for all that is left, and by which frames are not
 * reported to anybody. */
enum rules_look rules_look(const char *config, size_t length);

#endif
