/* local.conf of a home, which is read again when it is newer. */
#ifndef ZTNODE_LOCALCONF_H
#define ZTNODE_LOCALCONF_H

#include "settings.h"

#include <stdbool.h>
#include <stdint.h>

struct localconf;

/* Reads it; a home without one has the defaults. NULL with a line said when it is broken. */
struct localconf *localconf_open(const char *home);
/* Once no other thread uses it. */
void localconf_close(struct localconf *conf);
/* Read it again if it has changed. True when there are new settings; a broken one is said, and the last good one stays. The
 * main thread. */
bool localconf_look(struct localconf *conf);
/* Good until the next look: for the main thread alone. */
const struct settings *localconf_settings(const struct localconf *conf);

/* -- any thread */

/* Whether an address must never be taken for the underlay. */
bool localconf_excludes(struct localconf *conf, const struct sockaddr_storage *address);
/* Whether an address, with its port, is one of those where nodes may be. */
bool localconf_names(struct localconf *conf, const struct sockaddr_storage *address);
/* One of the addresses where a node may be, by chance; `family` -1 means any. False when there is none. */
bool localconf_try(struct localconf *conf, uint64_t node, int family, struct sockaddr_storage *found);

#endif
