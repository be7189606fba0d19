/* The local JSON API over HTTP, on loopback only. */
#ifndef ZTNODE_API_H
#define ZTNODE_API_H

#include "node.h"

#include <stdbool.h>

struct api;

/* Serve on 127.0.0.1 and, where there is IPv6, ::1. NULL with a line said when the port is taken. */
struct api *api_start(struct node *node, const char *token);
void api_stop(struct api *api);

#endif
