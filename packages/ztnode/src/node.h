/* The node: ZeroTier's core, its state on disk, its networks and the threads that feed it. */
#ifndef ZTNODE_NODE_H
#define ZTNODE_NODE_H

#include "core.h"
#include "guard.h"
#include "hello.h"
#include "networks.h"
#include "underlay.h"

#include <stdbool.h>
#include <stdint.h>

#define PORT_DEFAULT 9993

struct node;

/* Start a node in a home whose identity is sound or absent. NULL with a line said. */
struct node *node_start(const char *home, unsigned int port);
/* Work until the descriptor `stop` is readable or node_stop is called. Returns the exit code of the program. */
int node_run(struct node *node, int stop);
/* From any thread. */
void node_stop(struct node *node);
/* Once no other thread uses it; NULL is nothing. */
void node_delete(struct node *node);

core_node *node_core(struct node *node);
unsigned int node_port(const struct node *node);
uint64_t node_address(const struct node *node);
const char *node_public_identity(const struct node *node);
bool node_online(const struct node *node);
struct underlay *node_underlay(struct node *node);
struct hello *node_hello(struct node *node);
const struct guard *node_guard(const struct node *node);
struct networks *node_networks(struct node *node);

#endif
