/* What an authentic packet may ask of the core: decisions alone, no I/O.
 *
 * On a link that is defined by the configuration alone, each remote is the root of a moon, and this node the root of its
 * planet. So the core lets a remote do what a root may do: tell the identity of any node, without a proof. A remote that
 * names itself the network's controller in this way then sends another configuration of the network, and with it rules
 * that drop frames or have copies of them sent to it. It also may subscribe to multicast groups without end, each of which
 * takes memory for ten minutes. Nothing of that is of use here, where all nodes and the network are known.
 */
#ifndef ZTNODE_VERBS_H
#define ZTNODE_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The configured remotes, who alone are named as members of groups; before there are packets. False without memory. */
bool verbs_know(const uint64_t *nodes, size_t count);
/* Whether the core must take off the compression of a packet before anything can be said of it. */
bool verbs_compressed(const unsigned char *packet, unsigned int length);
/* What may become of a packet whose MAC is right, and which is neither encrypted nor compressed any more. `closed`: there
 * are no nodes but the configured remotes. One that says which groups its sender is in or asks for members, that answers
 * such a question, says where another node is or that credentials count no more, needs verbs_in_budget too. */
enum verbs { VERBS_REFUSED, VERBS_PASS, VERBS_MEMBERS, VERBS_QUESTION, VERBS_ANSWER, VERBS_MEETING, VERBS_REVOKE };
enum verbs verbs_of(const unsigned char *packet, unsigned int length, bool closed);
/* Whether its sender has not done such a thing too often; `now` in milliseconds, of a clock that is never set. What came by
 * a trusted path, without a MAC, is counted by itself. Any thread. */
bool verbs_in_budget(const unsigned char *packet, unsigned int length, enum verbs what, bool sealed, int64_t now);

#endif
