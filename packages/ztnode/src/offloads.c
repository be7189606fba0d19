#include "offloads.h"

#include <string.h>

static const char *const names[OFFLOADS] = {"tso", "uso", "tcp-gro", "udp-gro", "underlay-gso", "underlay-gro", "shortcut"};

const char *offload_name(unsigned int number) { return names[number]; }

unsigned int offload_named(const char *name) {
	for (unsigned int i = 0; i < OFFLOADS; i++)
		if (strcmp(names[i], name) == 0) return 1u << i;
	return 0;
}
