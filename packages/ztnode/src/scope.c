/* Which paths the core prefers on a link without a controller: those to configured addresses.
 *
 * The core prefers private addresses to shared ones and those to global ones, at up to four times the latency
 * (Path::quality), and every address is one of a peer that answers of the peer come from. So whoever has one packet of a
 * peer may send it from a private address of his own and hand on what is sent there, both ways: then all traffic with that
 * peer goes through him, and he may drop it. Where members of a network find each other by themselves the preference is of
 * use. On a closed link an address that nobody has configured gets the scope that the core prefers least: it is used where
 * it is a fifth faster than a global one that is configured, which who hands packets on is not, and where none of those
 * answers. A path remembers the scope that its address had at first.
 *
 * The core calls the function by way of its procedure linkage table, where a program comes before its libraries. */
#include "scope.h"

#include "decode.h"

#include <dlfcn.h>
#include <string.h>

enum { LEAST_PREFERRED = 3, GLOBAL = 4, SHARED = 6, PRIVATE = 7 }; /* those that a path may have */

static int (*core_scope)(const struct sockaddr_storage *);
static bool (*is_configured)(void *, const struct sockaddr_storage *);
static void *context;

/* Before main, as decode.c does. */
__attribute__((constructor)) static void find_original(void) {
	void *found = dlsym(RTLD_NEXT, CORE_SCOPE);
	memcpy(&core_scope, &found, sizeof found);
}

bool scope_works(void) { return core_scope; }

void scope_prefer(bool (*configured)(void *, const struct sockaddr_storage *), void *own) {
	context = own;
	is_configured = configured;
}

bool scope_is_configured(const struct sockaddr_storage *address) {
	return is_configured && is_configured(context, address);
}

int scope_unranked(const struct sockaddr_storage *address) {
	int scope = core_scope(address);
	return scope == LEAST_PREFERRED ? GLOBAL : scope; /* 51.0.0.0/8 and others */
}

int scope_of(const struct sockaddr_storage *address) {
	int scope = core_scope(address);
	bool of_paths = scope == LEAST_PREFERRED || scope == GLOBAL || scope == SHARED || scope == PRIVATE;
	if (!of_paths || !is_configured || !decode_closed()) return scope;
	if (!scope_is_configured(address)) return LEAST_PREFERRED;
	return scope_unranked(address);
}
