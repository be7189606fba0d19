/* The rules of a network, as far as it matters whether they look into frames. */
#ifndef ZTNODE_RULES_H
#define ZTNODE_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether what the core lets pass by this network configuration (the text of networks.d/<network id>.conf) depends on the
 * nodes alone that a frame comes from and goes to: its rules match nothing but node addresses, do nothing but drop and
 * accept, and end with accept for all that is left; and frames are not reported to anybody. */
bool rules_by_node(const char *config, size_t length);

#endif
