/* The node: ZeroTier's core, its state on disk, its networks and the threads that feed it. */
#ifndef ZTNODE_NODE_H
#define ZTNODE_NODE_H

#include "core.h"
#include "guard.h"
#include "hello.h"
#include "io.h"
#include "networks.h"
#include "settings.h"

#include <stdbool.h>
#include <stdint.h>

#define HOME_MAX 3072

struct node;

/* Start a node in a home whose identity is sound or absent. NULL with a line said. */
struct node *node_start(const char *home, unsigned int port);
/* Work until node_stop. Returns the exit code of the program. */
int node_run(struct node *node);
/* From a signal handler or another thread. */
void node_stop(struct node *node);
/* Also of one that could not be started whole. */
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

/* Make an identity and write both files. False with a line said. */
bool identity_generate(const char *secret_file, const char *public_file);
/* Whether a text has the form of a secret identity. */
bool identity_sound(const char *text);
/* The private key in the text of a secret identity. */
bool identity_private_key(const char *secret, unsigned char key[64]);

#endif
