/* local.conf and devicemap. */
#ifndef ZTNODE_SETTINGS_H
#define ZTNODE_SETTINGS_H

#include "util.h"

#include <net/if.h>

#define MAX_BINDS 32
#define MAX_PREFIXES 512
#define MAX_TRIES 1024

struct physical_path {
	struct prefix prefix;
	bool blacklist;
	int mtu;                  /* 0: default */
	uint64_t trusted_path_id; /* 0: none */
};
struct try_address {
	uint64_t node;
	struct sockaddr_storage address;
};

/* What local.conf says; unknown keys are left out, as zerotier-one does. */
struct settings {
	unsigned int primary_port; /* 0: not set */
	struct sockaddr_storage binds[MAX_BINDS];
	size_t bind_count;
	char (*interface_blacklist)[IFNAMSIZ];
	size_t interface_blacklist_count;
	char interfaces[MAX_BINDS][IFNAMSIZ]; /* the only devices of the underlay */
	size_t interface_count;               /* 0: any that is not excluded */
	struct physical_path *physical;
	size_t physical_count;
	struct try_address *tries;
	size_t try_count;
	unsigned int offloads_off; /* bits of enum offloads */
};

/* Read local.conf text. NULL and a reason when it is no JSON object, or without memory; free with settings_free. */
struct settings *settings_parse(const char *text, size_t length, char *reason, size_t reason_size);
void settings_free(struct settings *settings);

/* Whether a device is not the underlay: its name begins with a built-in or configured prefix, or is not one of those
 * allowed. */
bool interface_excluded(const struct settings *settings, const char *name);
/* Whether a device is a dummy, going by its name as VyOS and Debian give it: it leads nowhere, and holds addresses. */
bool interface_is_dummy(const char *name);
/* Whether an address must never be taken for the underlay. */
bool address_excluded(const struct settings *settings, const struct sockaddr_storage *address);
/* Whether `try` has this address, with this port, for a node; 0 is any. */
bool try_listed(const struct settings *settings, uint64_t node, const struct sockaddr_storage *address);

/* Device name for a network in the text of a devicemap (lines nwid=name); false when there is none. */
bool devicemap_lookup(const char *text, uint64_t nwid, char name[IFNAMSIZ]);

#endif
