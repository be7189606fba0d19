/* Packets and frames like one that the core has just let pass take a shortcut around it.
 *
 * The core is asked for the first packet of each batch: of a peer at its address, in one network, a plain frame. What it
 * does is watched: it opened the packet with these keys and delivered one frame, no more. Then the others of this batch
 * that come the same way, are of the same peer, for the same network and plain frames as well need not be asked for: here
 * their MAC is verified with the same keys, and the frame is handed on. On the way out likewise: one frame to a node,
 * sealed with these keys and sent to this address; the others to the same node follow it.
 *
 * Nothing is taken for granted beyond the batch, and nothing while or after the core has worked on anything else that may
 * change its mind: every other packet, its background tasks, networks that are joined or left, settings. Networks whose
 * rules look into frames have no shortcut; where they look at EtherTypes, the core is asked for the first frame of each
 * (rules.h). Whatever is not exactly the same goes to the core as it came. Keys are copied for the time of a batch, and
 * wiped at its end. All but shortcut_network_* and shortcut_change_* is the calling thread's own. */
#ifndef ZTNODE_SHORTCUT_H
#define ZTNODE_SHORTCUT_H

#include "core.h"
#include "underlay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A frame with its Ethernet header, within the packet, for the network that the core knows by `which`. */
struct shortcut_frame {
	const void *which;
	const unsigned char *bytes;
	size_t length;
};

/* Before packets flow: whether it is used. At first it is, unless ZTNODE_SHORTCUT=off is in the environment. */
void shortcut_enable(bool wanted);
/* Whether it is, which takes a version of siv.h, too. */
bool shortcut_enabled(void);

/* -- packets of the underlay, in the thread that receives them */

/* True when the packet, which is changed, was good and has become a frame to deliver; false, and as it was, when the core
 * is to be asked. */
bool shortcut_in(int64_t socket, const struct sockaddr_storage *from, unsigned char *packet, size_t length,
                 struct shortcut_frame *frame);
/* ZT_Node_processWirePacket, watched. */
int shortcut_ask_in(core_node *core, int64_t now, int64_t socket, const struct sockaddr_storage *from,
                    const unsigned char *packet, size_t length);

/* -- frames of a TAP, in the thread that reads it */

/* Room for a packet to be sent there: send_place. */
typedef unsigned char *packet_place(struct underlay *underlay, int64_t socket, const struct sockaddr_storage *to,
                                    size_t length);
/* True when the frame was sent; false when the core is to be asked. */
bool shortcut_out(uint64_t nwid, const unsigned char *frame, size_t length, packet_place *place);
/* ZT_Node_processVirtualNetworkFrame, watched. The frame has its Ethernet header and at least one byte more. */
int shortcut_ask_out(core_node *core, int64_t now, uint64_t nwid, const unsigned char *frame, size_t length);

/* The batch has ended. */
void shortcut_forget(void);

/* -- what may change the core's mind: around it, from any thread */

void shortcut_change_begin(void);
void shortcut_change_end(void);

/* The core has read a network's configuration, has begun or ceased to use one, has written the one that it uses. */
void shortcut_network_read(uint64_t nwid, const char *config, size_t length);
void shortcut_network_used(uint64_t nwid, bool up);
void shortcut_network_written(uint64_t nwid, const char *config, size_t length);

/* -- what the core does, from within */

void shortcut_opened(const void *packet, const void *aes);
void shortcut_delivered(const void *which, uint64_t nwid, uint64_t source, uint64_t destination, unsigned int vlan,
                        size_t length);
void shortcut_sealing(const void *packet, bool encrypt, const void *aes);
void shortcut_sent(struct underlay *underlay, int64_t socket, const struct sockaddr_storage *to,
                   const unsigned char *packet, size_t length);

#endif
