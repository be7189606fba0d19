/* The local JSON API over HTTP: on loopback, and at a socket in the home. */
#ifndef ZTNODE_API_H
#define ZTNODE_API_H

#include "node.h"

#include <stdbool.h>

struct api;

/* NULL with a line said when there is no way in. */
struct api *api_start(struct node *node, const char *home, const char *token);
/* NULL is nothing. */
void api_stop(struct api *api);

#endif
