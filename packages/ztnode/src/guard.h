/* The gate of a node: who its remotes are, by the files of its home, and how their HELLOs are recognised. */
#ifndef ZTNODE_GUARD_H
#define ZTNODE_GUARD_H

#include "core.h"
#include "gate.h"
#include "settings.h"

struct guard;

/* For node `self` with this secret identity (as text). NULL when that is none. */
struct guard *guard_new(const char *home, uint64_t self, const char *secret_identity);
void guard_free(struct guard *guard);
/* Whether the core may see a packet (gate_pass). The thread that receives alone. */
enum gate_verdict guard_pass(struct guard *guard, const struct sockaddr_storage *from, const unsigned char *packet,
                             size_t length, int64_t now);
/* Known from now on: the addresses of all paths, and those of local.conf. */
void guard_know(struct guard *guard, const struct core_peers *peers, const struct settings *settings);
/* Say how many were kept out, and give memory back, when it is time to. From the main loop. */
void guard_look(struct guard *guard, int64_t now);
struct gate_counts guard_counts(const struct guard *guard);
bool guard_closed(const struct guard *guard);

#endif
