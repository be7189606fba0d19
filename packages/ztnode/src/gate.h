/* What of the underlay is let through to the core: decisions alone, no I/O.
 *
 * The core makes an object for every address that a packet comes from, before it knows whether the packet is genuine,
 * looks for its sender on disk, and agrees on a key with whoever says HELLO. Sources are free to choose, so a flood costs
 * its memory and time. Here a packet is looked at first, by what its head says in the clear.
 *
 * A gate that is closed (the link is defined by the configuration alone) lets in what comes from a configured remote and
 * is for us or another remote, and of HELLOs only those whose MAC is right. Then, as at an open one, addresses count:
 * those that the core has a path to (it has had an answer from there), or that are configured, always pass. Others are
 * strangers: so many a second are guests for a moment and share a number of packets; at an open gate they also share a few
 * HELLOs, each of which has the core prove an identity. A remote that has moved needs none of that: a HELLO of its own that
 * is newer than all before brings its address in, and a copy of one does not.
 */
#ifndef ZTNODE_GATE_H
#define ZTNODE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define GATE_GUEST_MS 5000

struct gate_counts {
	uint64_t foreign;   /* not from or for a configured node, or no packet at all */
	uint64_t forged;    /* HELLO of a configured remote with a wrong MAC */
	uint64_t strangers; /* from addresses that are not known and found no place as guests */
};

struct gate;

/* Whether the MAC of a HELLO is that of a remote, by its place in the list given to gate_close. */
typedef bool gate_authentic(void *context, size_t remote, const unsigned char *packet, size_t length);

/* An open one for node `self`; `seed` is random and a secret. NULL without memory. */
struct gate *gate_new(uint64_t self, uint64_t seed);
/* Close it, before the first packet: `remotes` are all that there are, and `authentic` is asked about their HELLOs. False
 * without memory. */
bool gate_close(struct gate *gate, const uint64_t *remotes, size_t count, gate_authentic *authentic, void *context);
void gate_free(struct gate *gate);
/* Addresses that are known from now on, instead of those before; without memory, those before stay. One thread at a time,
 * any one. */
void gate_know(struct gate *gate, const struct sockaddr_storage *places, size_t count);
/* Whether the core may see a packet: from an address that is known, or that a remote has just proved to be its own, or from
 * another. `now` in milliseconds. The thread that receives alone. */
enum gate_verdict { GATE_REFUSED, GATE_GUEST, GATE_KNOWN };
enum gate_verdict gate_pass(struct gate *gate, const struct sockaddr_storage *from, const unsigned char *packet,
                            size_t length, int64_t now);
/* How many were kept out since the start. Any thread. */
struct gate_counts gate_counts(const struct gate *gate);
bool gate_closed(const struct gate *gate);

#endif
