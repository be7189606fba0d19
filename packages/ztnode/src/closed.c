/* More that the core lets a remote do where each is the root of a moon, beside those of verbs.h.
 *
 * A root tells a node which address it sees it at. Where that differs from the last, the core takes all paths of that
 * family and scope for dead, those to others too (SelfAwareness::iam): a remote that told other addresses in turns kept
 * this node without paths, so that its traffic went by the only one that had a path still, the remote itself. The core of
 * 1.8.4 uses what it is told for nothing else, and moved addresses are noticed here without it (recovery.h).
 *
 * Answers to HELLO may bring newer worlds, and the core verifies each, 2 ms long, 55 of them in one packet. The planet and
 * the moons of such a link come from the configuration.
 *
 * A peer may say that it is to be found elsewhere from now on (Peer::clusterRedirect, for clusters that there are no more),
 * and everything for it goes there at once: to whom it likes, at line speed.
 *
 * A root is asked for nodes that are unknown, every half second for each: always for the controller of the network, which
 * there is none, and for whatever node a program sends to. Remotes do not answer (verbs.h), and all that may be known is
 * configured.
 *
 * The core calls them by way of its procedure linkage table, where a program comes before its libraries. */
#include "closed.h"

#include "decode.h"

#include <dlfcn.h>
#include <string.h>

static void (*core_iam)(void *, void *, const void *, int64_t, const void *, const void *, bool, int64_t);
static bool (*core_accepts_worlds)(const void *, const void *);
static void (*core_redirect)(void *, void *, const void *, const void *, int64_t);
static void (*core_whois)(void *, void *, int64_t, const uint64_t *);

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_originals(void) {
	void *iam = dlsym(RTLD_NEXT, CORE_IAM);
	memcpy(&core_iam, &iam, sizeof iam);
	void *worlds = dlsym(RTLD_NEXT, CORE_ACCEPTS_WORLDS), *redirect = dlsym(RTLD_NEXT, CORE_REDIRECT);
	memcpy(&core_accepts_worlds, &worlds, sizeof worlds);
	memcpy(&core_redirect, &redirect, sizeof redirect);
	void *whois = dlsym(RTLD_NEXT, CORE_WHOIS);
	memcpy(&core_whois, &whois, sizeof whois);
}

bool closed_works(void) { return core_iam && core_accepts_worlds && core_redirect && core_whois; }

void closed_iam(void *own, void *thread, const void *reporter, int64_t socket, const void *from, const void *surface,
                bool trusted, int64_t now) {
	if (!decode_closed()) core_iam(own, thread, reporter, socket, from, surface, trusted, now);
}

bool closed_accepts_worlds(const void *topology, const void *node) {
	return !decode_closed() && core_accepts_worlds(topology, node);
}

void closed_redirect(void *peer, void *thread, const void *path, const void *to, int64_t now) {
	if (!decode_closed()) core_redirect(peer, thread, path, to, now);
}

void closed_whois(void *own, void *thread, int64_t now, const uint64_t *node) {
	if (!decode_closed()) core_whois(own, thread, now, node);
}
