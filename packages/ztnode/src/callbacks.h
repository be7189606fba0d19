/* What ZeroTier's core calls: its state on disk, its packets and frames, what it says, and what it asks about paths. */
#ifndef ZTNODE_CALLBACKS_H
#define ZTNODE_CALLBACKS_H

#include "contact.h"
#include "core.h"
#include "localconf.h"
#include "networks.h"
#include "underlay.h"

#include <stdatomic.h>

/* What they need, and what they have heard. The core is given a pointer to it and calls from any thread. All but `contact`,
 * which may be NULL, is there before the core is asked for anything but its start. */
struct core_host {
	const char *home;
	struct underlay *underlay;
	struct localconf *conf;
	struct networks *networks;
	struct contact *contact;
	int wake; /* eventfd of the main loop */
	atomic_bool online;
	atomic_bool identity_lost; /* the disk has refused it */
	atomic_bool collision;     /* has been said */
};

extern const struct core_callbacks callbacks;

#endif
