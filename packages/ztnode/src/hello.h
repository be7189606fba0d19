/* HELLO in ZeroTier's extended armor, which nodes from 1.16 send with encryptedHelloEnabled and the core cannot read.
 *
 * Such a packet is a plain HELLO whose bytes from the MAC on are encrypted with AES-256-CTR, its 32-byte ephemeral
 * X25519 key appended; bit 7 of the flags says so, with the cipher suite of a packet in the clear. The key is the
 * first half of SHA-512 over what the ephemeral key and the receiver's agree on, the nonce the first 12 bytes of the
 * packet, the counter begins at 0. Taken off, an ordinary HELLO is left, which the core authenticates as ever. */
#ifndef ZTNODE_HELLO_H
#define ZTNODE_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELLO_MAX 4096 /* longer ones are not read: it has 17 bytes for each moon of its sender */
#define HELLO_DESTINATION 8
#define HELLO_SENDERS 32 /* how many nodes are remembered whose HELLO could not be read */

/* Whether a datagram is one; cheap, for every packet: nothing else has this cipher and flag. */
static inline bool hello_is_encrypted(const unsigned char *packet, size_t length) {
	return length > 60 && (packet[18] & 0xf8) == 0x80 && packet[13] != 0xff;
}

struct hello_sender {
	uint64_t node;
	unsigned int count;
	int64_t last; /* milliseconds of the core's clock */
};

struct hello;

/* For the node with this secret identity (as text). NULL when it is none. */
struct hello *hello_new(const char *secret_identity);
void hello_free(struct hello *hello);
/* Take the extended armor off into `plain`. 0 when it cannot be read, is not for this node, or too many come in: those from
 * addresses that are `known` and others are counted apart. */
size_t hello_open(struct hello *hello, const unsigned char *packet, size_t length, bool known,
                  unsigned char plain[HELLO_MAX], int64_t now);
/* Nodes whose encrypted HELLO could not be read; their number. Any thread. */
size_t hello_unread(struct hello *hello, struct hello_sender senders[HELLO_SENDERS]);

#endif
