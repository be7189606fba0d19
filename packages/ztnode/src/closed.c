/* Two more things that the core lets a remote do where each is the root of a moon, beside those of verbs.h.
 *
 * A root tells a node which address it sees it at. Where that differs from the last, the core takes all paths of that
 * family and scope for dead, those to others too (SelfAwareness::iam): a remote that told other addresses in turns kept
 * this node without paths, so that its traffic went by the only one that had a path still, the remote itself. The core of
 * 1.8.4 uses what it is told for nothing else, and moved addresses are noticed here without it (recovery.h).
 *
 * Frames and multicast may bring a certificate of membership. The core makes an entry for whoever it was issued to before
 * it looks at the signature, and never removes one (Network::clean is not called). Networks without a controller have no
 * certificates.
 *
 * The core calls both by way of its procedure linkage table, where a program comes before its libraries. */
#include "closed.h"

#include "decode.h"

#include <dlfcn.h>
#include <string.h>

#define ADD_REJECTED 0 /* Membership::AddCredentialResult */

static void (*core_iam)(void *, void *, const void *, int64_t, const void *, const void *, bool, int64_t);
static int (*core_add_certificate)(void *, void *, const void *);

/* Before main, as decode.c and relay.c do. */
__attribute__((constructor)) static void find_originals(void) {
	void *iam = dlsym(RTLD_NEXT, CORE_IAM), *add = dlsym(RTLD_NEXT, CORE_ADD_CERTIFICATE);
	memcpy(&core_iam, &iam, sizeof iam);
	memcpy(&core_add_certificate, &add, sizeof add);
}

bool closed_works(void) { return core_iam && core_add_certificate; }

void closed_iam(void *own, void *thread, const void *reporter, int64_t socket, const void *from, const void *surface,
                bool trusted, int64_t now) {
	if (!decode_closed()) core_iam(own, thread, reporter, socket, from, surface, trusted, now);
}

int closed_add_certificate(void *network, void *thread, const void *certificate) {
	return decode_closed() ? ADD_REJECTED : core_add_certificate(network, thread, certificate);
}
