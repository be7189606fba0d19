/* Contact with peers that the core's C interface does not offer: HELLO to an address, and a reset of its paths. */
#ifndef ZTNODE_CONTACT_H
#define ZTNODE_CONTACT_H

#include "core.h"
#include "guard.h"
#include "settings.h"
#include "underlay.h"

#include <stdbool.h>
#include <stdint.h>

struct contact;

/* NULL with a line said when the core's objects do not lie as this program knows them, and without memory. */
struct contact *contact_new(core_node *core, struct underlay *underlay, struct guard *guard);
/* `peer` was heard from an address that is none of its paths', or is said to be there. From any thread, also under locks
 * of the core. True when the main loop should look soon. */
bool contact_hint(struct contact *contact, uint64_t peer, const struct sockaddr_storage *address);
/* Whether the path to `peer` at this address stays where it is, although a packet came from there by this socket: it
 * works, and leads over the uplink that the routes prefer. `silent`: but it has brought nothing lately. From any thread, as
 * above. */
bool contact_keeps(struct contact *contact, uint64_t peer, int64_t socket, const struct sockaddr_storage *address,
                   bool *silent);
/* Look at all peers if it is time to, ask and search. From the main loop, with no lock of the core held. */
void contact_look(struct contact *contact, const struct settings *settings, int64_t now);
/* How many milliseconds the main loop may sleep until the next look. */
int contact_pause(const struct contact *contact);
void contact_free(struct contact *contact);

#endif
