/* What is put in the place of four functions of the core that a link without a controller is better off without
 * (closed.c).
 */
#ifndef ZTNODE_CLOSED_H
#define ZTNODE_CLOSED_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_IAM "_ZN8ZeroTier13SelfAwareness3iamEPvRKNS_7AddressElRKNS_11InetAddressES7_bl"
#define CORE_ACCEPTS_WORLDS "_ZNK8ZeroTier8Topology27shouldAcceptWorldUpdateFromERKNS_7AddressE"
#define CORE_WHOIS "_ZN8ZeroTier6Switch12requestWhoisEPvlRKNS_7AddressE"
#define CORE_REDIRECT "_ZN8ZeroTier4Peer15clusterRedirectEPvRKNS_9SharedPtrINS_4PathEEERKNS_11InetAddressEl"

/* Whether the core's own functions are there; else no node may be started. */
bool closed_works(void);

/* SelfAwareness::iam, Topology::shouldAcceptWorldUpdateFrom, Peer::clusterRedirect and Switch::requestWhois, exported under
 * their names. */
void closed_whois(void *own, void *thread, int64_t now, const uint64_t *node) __asm__(CORE_WHOIS);
bool closed_accepts_worlds(const void *topology, const void *node) __asm__(CORE_ACCEPTS_WORLDS);
void closed_redirect(void *peer, void *thread, const void *path, const void *to, int64_t now) __asm__(CORE_REDIRECT);
void closed_iam(void *own, void *thread, const void *reporter, int64_t socket, const void *from, const void *surface,
                bool trusted, int64_t now) __asm__(CORE_IAM);

#endif
