/* Which of our questions about members of groups went to whom, and about which network.
 *
 * The core takes an answer for one to a question of its own by half of the question's number, whoever sends it and whatever
 * was asked, and everybody who says HELLO gets a number. So anybody, of whatever network or none, could name members of a
 * group, himself among them, and be sent what is meant for the group. Members are named in answers to MULTICAST_GATHER, and
 * to frames for a group. */
#ifndef ZTNODE_ASKED_H
#define ZTNODE_ASKED_H

#include <stdbool.h>
#include <stdint.h>

/* A packet of ours, neither encrypted nor compressed, with the number that it leaves with. Any thread. */
void asked_sending(const unsigned char *packet, unsigned int length);
/* Whether a packet that is not encrypted may be such a question, whose content matters then. */
bool asked_may_be(const unsigned char *packet, unsigned int length);
/* The same of a packet as it leaves; false where it has a MAC. */
bool asked_unsealed(const unsigned char *packet, unsigned int length);
/* Whether `node` was sent a packet of that verb and network, with a number whose upper half is `number`, among the last
 * thousands. */
bool asked_of(uint64_t node, unsigned int verb, uint32_t number, uint64_t network);

#endif
