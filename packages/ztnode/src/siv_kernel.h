/* AES-GMAC-SIV, eight blocks at a time: the body of siv_sse.c and siv_vaes.c, which define a vector of LANES blocks.
 *
 * GHASH is computed over reversed bytes, with powers of the key multiplied by x beforehand: then a product needs no shift,
 * and the eight products of a group are added before one reduction. Elements are in the bit order of the standard, that
 * is x^127 is the lowest bit. */
#include "siv.h"

#include <immintrin.h>
#include <string.h>

#define INLINE TARGET static inline __attribute__((always_inline))
enum { BLOCK = 16, GROUP = 8, GROUP_BYTES = GROUP * BLOCK, HALF = GROUP / 2, VECTORS = GROUP / LANES, ROUNDS = 14 };

/* Powers 8 to 1, then zeros: what follows the last block of a short group counts nothing. */
struct powers {
	_Alignas(32) __m128i whole[GROUP + HALF];
	_Alignas(32) __m128i halves[GROUP + HALF]; /* both halves added */
};

struct sums {
	vector low, middle, high;
};

INLINE __m128i load(const void *from) { return _mm_loadu_si128((const __m128i *)from); }
INLINE void store(void *to, __m128i block) { _mm_storeu_si128((__m128i *)to, block); }
INLINE __m128i reversed(__m128i block) {
	return _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

/* From a product of 256 bits to 128, 64 bits at a time. */
INLINE vector reduce(vector low, vector middle, vector high) {
	const vector polynomial = V_BROADCAST(_mm_set_epi64x((long long)0xc200000000000000, 1));
	low = V_XOR(low, V_UP(middle));
	high = V_XOR(high, V_DOWN(middle));
	low = V_XOR(V_SWAPPED(low), V_MULTIPLY(low, polynomial, 0x10));
	low = V_XOR(V_SWAPPED(low), V_MULTIPLY(low, polynomial, 0x10));
	return V_XOR(low, high);
}

INLINE vector multiply(vector a, vector b) {
	vector middle = V_XOR(V_MULTIPLY(a, b, 0x01), V_MULTIPLY(a, b, 0x10));
	return reduce(V_MULTIPLY(a, b, 0x00), middle, V_MULTIPLY(a, b, 0x11));
}

/* Times x. */
INLINE vector times_x(vector power) {
	const vector polynomial = V_BROADCAST(_mm_set_epi64x((long long)0xc200000000000000, 1));
	vector carries = V_SHIFT_RIGHT(power, 63);
	vector over = V_SUBTRACT(V_ZERO, V_BOTH_HIGH(carries)); /* all ones where the top bit is set */
	return V_XOR(V_XOR(V_SHIFT_LEFT(power, 1), V_UP(carries)), V_AND(over, polynomial));
}

/* Powers 5 to 8 are for full groups only. */
INLINE void prepare(struct powers *powers, const struct siv_key *key, bool full) {
	const vector fourth = times_x(V_BROADCAST(load(key->power[3])));
#pragma GCC unroll 4
	for (int i = 0; i < HALF; i += LANES) {
		vector low = times_x(V_POWERS(i));
		V_STORE(&powers->whole[HALF + i], low);
		V_STORE(&powers->halves[HALF + i], V_XOR(low, V_SWAPPED(low)));
		V_STORE(&powers->whole[GROUP + i], V_ZERO);
		V_STORE(&powers->halves[GROUP + i], V_ZERO);
		if (!full) continue;
		vector high = multiply(fourth, low);
		V_STORE(&powers->whole[i], high);
		V_STORE(&powers->halves[i], V_XOR(high, V_SWAPPED(high)));
	}
}

INLINE void wipe(void *secret, size_t length) {
	memset(secret, 0, length);
	__asm__ volatile("" : : "r"(secret) : "memory");
}

/* Up to 127 bytes. */
INLINE void copy(unsigned char *to, const unsigned char *from, size_t length) {
	size_t at = 0;
	for (; length - at >= sizeof(vector); at += sizeof(vector)) V_STORE(to + at, V_LOAD(from + at));
#pragma GCC unroll 5
	for (size_t part = 16; part; part /= 2) {
		if (!(length & part) || part >= sizeof(vector)) continue;
		__builtin_memcpy(to + at, from + at, part);
		at += part;
	}
}

/* LANES blocks are added up with their powers. */
INLINE void add(struct sums *sums, const struct powers *powers, int power, vector block) {
	vector whole = V_LOAD(&powers->whole[power]), halves = V_LOAD(&powers->halves[power]);
	sums->low = V_XOR(sums->low, V_MULTIPLY(block, whole, 0x00));
	sums->high = V_XOR(sums->high, V_MULTIPLY(block, whole, 0x11));
	sums->middle = V_XOR(sums->middle, V_MULTIPLY(V_XOR(block, V_SWAPPED(block)), halves, 0x00));
}

INLINE __m128i total(const struct sums *sums) {
	vector low = sums->low, high = sums->high, middle = V_XOR(sums->middle, V_XOR(low, high));
	return V_SUM(reduce(low, middle, high));
}

/* The last `blocks` of the eight powers are for the blocks there are; the rest of the `vectors` counts nothing. The vector
 * with the hash so far comes last: it waits for the group before. */
INLINE __m128i hash_vectors(const struct powers *powers, const unsigned char *data, int vectors, int blocks, __m128i hash) {
	struct sums sums = {V_ZERO, V_ZERO, V_ZERO};
#pragma GCC unroll 8
	for (int i = 1; i < vectors; i++)
		add(&sums, powers, GROUP - blocks + i * LANES, V_REVERSED(V_LOAD(data + i * LANES * BLOCK)));
	add(&sums, powers, GROUP - blocks, V_XOR(V_REVERSED(V_LOAD(data)), V_FIRST(hash)));
	return total(&sums);
}

INLINE __m128i hash_group(const struct powers *powers, const unsigned char *data, __m128i hash) {
	return hash_vectors(powers, data, VECTORS, GROUP, hash);
}

/* Encrypts or decrypts these vectors in place; meanwhile a group at `hashed`, unless it is NULL, goes into the hash. */
INLINE void crypt_vectors(const struct siv_key *key, __m128i counter, unsigned char *data, int vectors,
                          const struct powers *powers, const unsigned char *hashed, __m128i *hash) {
	struct sums sums = {V_ZERO, V_ZERO, V_ZERO};
	vector state[VECTORS], round_key = V_BROADCAST(load(key->round[0]));
#pragma GCC unroll 8
	for (int i = 0; i < vectors; i++)
		state[i] = V_XOR(V_REVERSED(V_ADD(V_BROADCAST(counter), V_STEP(i * LANES))), round_key);
#pragma GCC unroll 16
	for (int round = 1; round < ROUNDS; round++) {
		round_key = V_BROADCAST(load(key->round[round]));
#pragma GCC unroll 8
		for (int i = 0; i < vectors; i++) state[i] = V_ROUND(state[i], round_key);
		if (!hashed || round > VECTORS) continue;
		int part = (round % VECTORS) * LANES;
		vector block = V_REVERSED(V_LOAD(hashed + part * BLOCK));
		add(&sums, powers, part, part ? block : V_XOR(block, V_FIRST(*hash)));
	}
	round_key = V_BROADCAST(load(key->round[ROUNDS]));
#pragma GCC unroll 8
	for (int i = 0; i < vectors; i++) {
		unsigned char *at = data + i * LANES * BLOCK;
		V_STORE(at, V_XOR(V_LOAD(at), V_LAST_ROUND(state[i], round_key)));
	}
	if (hashed) *hash = total(&sums);
}

INLINE void crypt_group(const struct siv_key *key, __m128i counter, unsigned char *data) {
	crypt_vectors(key, counter, data, VECTORS, NULL, NULL, NULL);
}

/* Less than a group, in a buffer of one. */
INLINE void crypt_rest(const struct siv_key *key, __m128i counter, unsigned char rest[GROUP_BYTES], size_t left) {
	if (left <= HALF * BLOCK) crypt_vectors(key, counter, rest, VECTORS / 2, NULL, NULL, NULL);
	else crypt_group(key, counter, rest);
}

INLINE __m128i next_counter(__m128i counter) { return _mm_add_epi32(counter, _mm_set_epi32(0, 0, 0, GROUP)); }

INLINE __m128i encrypt_block(const struct siv_key *key, __m128i block) {
	block = _mm_xor_si128(block, load(key->round[0]));
#pragma GCC unroll 16
	for (int round = 1; round < ROUNDS; round++) block = _mm_aesenc_si128(block, load(key->round[round]));
	return _mm_aesenclast_si128(block, load(key->round[ROUNDS]));
}

INLINE __m128i decrypt_block(const struct siv_key *key, __m128i block) {
	block = _mm_xor_si128(block, load(key->round[ROUNDS]));
#pragma GCC unroll 16
	for (int round = 0; round < ROUNDS - 1; round++) block = _mm_aesdec_si128(block, load(key->inverse[round]));
	return _mm_aesdeclast_si128(block, load(key->round[0]));
}

/* A product of one block and the first power. */
INLINE __m128i hash_block(const struct powers *powers, __m128i block) {
	return V_SUM(multiply(V_FIRST(block), V_FIRST(powers->whole[GROUP - 1])));
}

/* The rest of the data, up to 127 bytes with zeros after them, then the length of all in bits. */
INLINE __m128i hash_end(const struct powers *powers, unsigned char *rest, size_t left, size_t length, __m128i hash) {
	int blocks = (int)((left + BLOCK - 1) / BLOCK);
	__m128i bits = _mm_set_epi64x((long long)(length + BLOCK) * 8, 0);
	if (blocks == GROUP && length >= GROUP_BYTES) {
		hash = hash_group(powers, rest, hash);
		blocks = 0;
	}
	for (; blocks >= HALF; blocks -= HALF, rest += HALF * BLOCK) hash = hash_vectors(powers, rest, VECTORS / 2, HALF, hash);
	if (blocks == 0) return hash_block(powers, _mm_xor_si128(hash, bits));
	store(rest + blocks * BLOCK, reversed(bits));
	return hash_vectors(powers, rest, VECTORS / 2, blocks + 1, hash);
}

INLINE __m128i mac(const struct siv_key *key, __m128i nonce, const unsigned char first[16], const unsigned char *data,
                   size_t length) {
	struct powers powers;
	__m128i mask = encrypt_block(key, nonce);
	prepare(&powers, key, length >= GROUP_BYTES);
	__m128i hash = hash_block(&powers, reversed(load(first)));
	size_t at = 0;
	for (; length - at >= GROUP_BYTES; at += GROUP_BYTES) hash = hash_group(&powers, data + at, hash);
	_Alignas(32) unsigned char rest[GROUP_BYTES] = {0};
	copy(rest, data + at, length - at);
	hash = hash_end(&powers, rest, length - at, length, hash);
	wipe(rest, sizeof rest);
	wipe(&powers, sizeof powers);
	return _mm_xor_si128(reversed(hash), mask);
}

INLINE void crypt(const struct siv_key *key, __m128i counter, unsigned char *data, size_t length) {
	size_t at = 0;
	for (; length - at >= GROUP_BYTES; at += GROUP_BYTES, counter = next_counter(counter))
		crypt_group(key, counter, data + at);
	if (at == length) return;
	_Alignas(32) unsigned char rest[GROUP_BYTES];
	copy(rest, data + at, length - at);
	crypt_rest(key, counter, rest, length - at);
	copy(data + at, rest, length - at);
	wipe(rest, sizeof rest);
}

/* Decrypts and authenticates what was decrypted, one group behind. */
INLINE __m128i crypt_mac(const struct siv_key *key, __m128i counter, const struct siv_key *mac_key, __m128i nonce,
                         const unsigned char first[16], unsigned char *data, size_t length) {
	struct powers powers;
	__m128i mask = encrypt_block(mac_key, nonce);
	prepare(&powers, mac_key, length >= GROUP_BYTES);
	__m128i hash = hash_block(&powers, reversed(load(first)));
	const unsigned char *hashed = NULL; /* the group before */
	size_t at = 0;
	if (length >= GROUP_BYTES) {
		crypt_group(key, counter, data);
		hashed = data;
		for (at = GROUP_BYTES; length - at >= GROUP_BYTES; at += GROUP_BYTES, hashed += GROUP_BYTES) {
			counter = next_counter(counter);
			crypt_vectors(key, counter, data + at, VECTORS, &powers, hashed, &hash);
		}
		counter = next_counter(counter);
	}
	_Alignas(32) unsigned char rest[GROUP_BYTES] = {0};
	size_t left = length - at;
	if (left) {
		copy(rest, data + at, left);
		crypt_rest(key, counter, rest, left);
		copy(data + at, rest, left);
		memset(rest + left, 0, GROUP_BYTES - left);
	}
	if (hashed) hash = hash_group(&powers, hashed, hash);
	hash = hash_end(&powers, rest, left, length, hash);
	wipe(rest, sizeof rest);
	wipe(&powers, sizeof powers);
	return _mm_xor_si128(reversed(hash), mask);
}

/* The tag of 64 bits: both halves of the MAC added. */
INLINE __m128i folded(__m128i tag) { return _mm_xor_si128(tag, _mm_srli_si128(tag, 8)); }

/* GMAC's nonce: the IV, 32 bits of zero, and 1. */
INLINE __m128i nonce_of(__m128i iv) { return _mm_unpacklo_epi64(iv, _mm_set_epi64x(0, 0x0100000000000000)); }

/* The first counter, byte-reversed: its highest bit of 32 is cleared so that it cannot overflow within a packet. */
INLINE __m128i counter_of(__m128i block) { return _mm_and_si128(reversed(block), _mm_set_epi32(-1, -1, -1, 0x7fffffff)); }

TARGET static void kernel_mac(const struct siv_key *key, const unsigned char nonce[16], const unsigned char first[16],
                              const unsigned char *data, size_t length, unsigned char tag[16]) {
	store(tag, mac(key, load(nonce), first, data, length));
}

TARGET static void kernel_crypt(const struct siv_key *key, const unsigned char counter[16], unsigned char *data,
                                size_t length) {
	crypt(key, reversed(load(counter)), data, length);
}

TARGET static void kernel_seal(const struct siv_key keys[2], unsigned char block[16], const unsigned char first[16],
                               unsigned char *data, size_t length) {
	__m128i iv = load(block);
	__m128i tag = mac(&keys[0], nonce_of(iv), first, data, length);
	__m128i sent = encrypt_block(&keys[1], _mm_unpacklo_epi64(iv, folded(tag)));
	store(block, sent);
	crypt(&keys[1], counter_of(sent), data, length);
}

TARGET static bool kernel_open(const struct siv_key keys[2], const unsigned char block[16], const unsigned char first[16],
                               unsigned char *data, size_t length) {
	__m128i sent = load(block), iv_and_tag = decrypt_block(&keys[1], sent);
	__m128i tag = crypt_mac(&keys[1], counter_of(sent), &keys[0], nonce_of(iv_and_tag), first, data, length);
	__m128i difference = _mm_xor_si128(folded(tag), _mm_srli_si128(iv_and_tag, 8));
	return _mm_cvtsi128_si64(difference) == 0;
}
