/* AES-GMAC-SIV with 256-bit keys, the cipher of ZeroTier packets, in versions for different CPUs.
 *
 * A packet is sealed in two passes: GMAC over all that is authenticated gives a tag of 64 bits; IV and tag, encrypted as
 * one block, are what is sent and the first counter of AES-CTR. It is opened in one pass. Keys are the core's own objects
 * and stay as they are; nothing of them is kept here beyond a call. */
#ifndef ZTNODE_SIV_H
#define ZTNODE_SIV_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* The core's AES object on a CPU with AES-NI: round keys; those of the inverse; powers 1 to 4 of the GMAC key, bytes in
 * reverse order, and their halves added up. */
struct siv_key {
	_Alignas(16) unsigned char round[15][16];
	unsigned char inverse[13][16];
	unsigned char power[4][16];
	unsigned char halves[4][16];
};
static_assert(sizeof(struct siv_key) == 576, "core ABI");

/* One version. `first` is the block that is authenticated before the data; the data may have any length and alignment. */
struct siv {
	const char *name;
	/* GMAC of `first` and the data; the last four bytes of the nonce are 0, 0, 0, 1. */
	void (*mac)(const struct siv_key *key, const unsigned char nonce[16], const unsigned char first[16],
	            const unsigned char *data, size_t length, unsigned char tag[16]);
	/* AES-CTR in place; of the counter block, the last 32 bits count. */
	void (*crypt)(const struct siv_key *key, const unsigned char counter[16], unsigned char *data, size_t length);
	/* Both keys: MAC, encryption. Encrypts in place; `iv` is in the first 8 bytes of `block`, which becomes what is sent.
	 */
	void (*seal)(const struct siv_key keys[2], unsigned char block[16], const unsigned char first[16], unsigned char *data,
	             size_t length);
	/* Decrypts in place; whether the MAC is right, in constant time. */
	bool (*open)(const struct siv_key keys[2], const unsigned char block[16], const unsigned char first[16],
	             unsigned char *data, size_t length);
};

extern const struct siv siv_sse;  /* AES-NI, PCLMULQDQ, SSE4.1: 8 blocks of 128 bits */
extern const struct siv siv_vaes; /* VAES, VPCLMULQDQ, AVX2: 4 times 256 bits */

/* The best version for this CPU, or the one that `wanted` names ("sse", "vaes"); NULL: none, as with "core". A version
 * that the CPU does not have is not returned. */
const struct siv *siv_choose(const char *wanted);

#endif
