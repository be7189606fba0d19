/* What is put in the place of a function of the core (scope.c says why). */
#ifndef ZTNODE_SCOPE_H
#define ZTNODE_SCOPE_H

#include <stdbool.h>
#include <sys/socket.h>

#define CORE_SCOPE "_ZNK8ZeroTier11InetAddress7ipScopeEv"

/* Whether the core's own function is there; else no node may be started. */
bool scope_works(void);
/* What tells whether an address is configured. Before there are threads. */
void scope_prefer(bool (*configured)(void *context, const struct sockaddr_storage *address), void *context);

bool scope_is_configured(const struct sockaddr_storage *address);
/* That of an address wherever it is from; of addresses which once nobody announced, that of global ones. */
int scope_unranked(const struct sockaddr_storage *address);

/* InetAddress::ipScope, exported under its name. */
int scope_of(const struct sockaddr_storage *address) __asm__(CORE_SCOPE);

#endif
