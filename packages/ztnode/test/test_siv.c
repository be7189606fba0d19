/* Every version of AES-GMAC-SIV that this CPU has: vectors of NIST, and the same as a plain AES and GHASH that work bit by
 * bit, for all lengths and alignments, in buffers that end with the data. */
#include "siv.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char sbox[256];
static unsigned int seed = 1;

static unsigned char any(void) {
	seed = seed * 1103515245 + 12345;
	return (unsigned char)(seed >> 16);
}

static unsigned char times(unsigned char a, unsigned char b) {
	unsigned char product = 0;
	for (; b; b >>= 1, a = (unsigned char)(a << 1 ^ (a & 0x80 ? 0x1b : 0)))
		if (b & 1) product ^= a;
	return product;
}

static void make_sbox(void) {
	for (int value = 0; value < 256; value++) {
		unsigned char inverse = 0, result = 0x63;
		for (int other = 1; other < 256 && !inverse; other++)
			if (times((unsigned char)value, (unsigned char)other) == 1) inverse = (unsigned char)other;
		for (int turn = 0; turn < 5; turn++) result ^= (unsigned char)(inverse << turn | inverse >> (8 - turn));
		sbox[value] = result;
	}
}

static void mix(unsigned char block[16], const unsigned char row[4]) {
	for (int column = 0; column < 16; column += 4) {
		unsigned char old[4];
		memcpy(old, block + column, 4);
		for (int i = 0; i < 4; i++) {
			block[column + i] = 0;
			for (int k = 0; k < 4; k++) block[column + i] ^= times(old[k], row[(k - i + 4) % 4]);
		}
	}
}

static void encrypt(const struct siv_key *key, const unsigned char in[16], unsigned char out[16]) {
	unsigned char state[16];
	for (int i = 0; i < 16; i++) state[i] = in[i] ^ key->round[0][i];
	for (int round = 1; round <= 14; round++) {
		unsigned char next[16];
		for (int i = 0; i < 16; i++) next[i] = sbox[state[(i + 4 * (i % 4)) % 16]];
		if (round < 14) mix(next, (const unsigned char[]){2, 3, 1, 1});
		for (int i = 0; i < 16; i++) state[i] = next[i] ^ key->round[round][i];
	}
	memcpy(out, state, 16);
}

/* a = a * b in GF(2^128), bit 0 is the highest of the first byte. */
static void field_multiply(unsigned char a[16], const unsigned char b[16]) {
	unsigned char product[16] = {0}, v[16];
	memcpy(v, b, 16);
	for (int bit = 0; bit < 128; bit++) {
		if (a[bit / 8] & 0x80 >> bit % 8)
			for (int i = 0; i < 16; i++) product[i] ^= v[i];
		int carry = v[15] & 1;
		for (int i = 15; i > 0; i--) v[i] = (unsigned char)(v[i] >> 1 | v[i - 1] << 7);
		v[0] = (unsigned char)(v[0] >> 1 ^ (carry ? 0xe1 : 0));
	}
	memcpy(a, product, 16);
}

/* As the core does it: AES.hpp of 1.8.4 with AES-NI. */
static void make_key(struct siv_key *key, const unsigned char bytes[32]) {
	unsigned char words[60][4], coefficient = 1, hash_key[16] = {0}, power[16];
	memcpy(words, bytes, 32);
	for (int i = 8; i < 60; i++) {
		unsigned char word[4];
		memcpy(word, words[i - 1], 4);
		if (i % 8 == 0) {
			unsigned char first = word[0];
			for (int k = 0; k < 4; k++) word[k] = sbox[k < 3 ? word[k + 1] : first];
			word[0] ^= coefficient;
			coefficient = times(coefficient, 2);
		} else if (i % 8 == 4)
			for (int k = 0; k < 4; k++) word[k] = sbox[word[k]];
		for (int k = 0; k < 4; k++) words[i][k] = words[i - 8][k] ^ word[k];
	}
	memcpy(key->round, words, sizeof words);
	for (int i = 0; i < 13; i++) {
		memcpy(key->inverse[i], key->round[13 - i], 16);
		mix(key->inverse[i], (const unsigned char[]){14, 11, 13, 9});
	}
	encrypt(key, hash_key, hash_key);
	memcpy(power, hash_key, 16);
	for (int i = 0; i < 4; i++, field_multiply(power, hash_key)) {
		for (int k = 0; k < 16; k++) key->power[i][k] = power[15 - k];
		for (int k = 0; k < 16; k++) key->halves[i][k] = key->power[i][k] ^ key->power[i][(k + 8) % 16];
	}
}

static void plain_mac(const struct siv_key *key, const unsigned char nonce[16], const unsigned char first[16],
                      const unsigned char *data, size_t length, unsigned char tag[16]) {
	unsigned char hash[16], hash_key[16], mask[16];
	for (int i = 0; i < 16; i++) hash_key[i] = key->power[0][15 - i];
	memcpy(hash, first, 16);
	field_multiply(hash, hash_key);
	for (size_t at = 0; at < length; at += 16) {
		for (size_t i = 0; i < 16 && at + i < length; i++) hash[i] ^= data[at + i];
		field_multiply(hash, hash_key);
	}
	uint64_t bits = (uint64_t)(length + 16) * 8;
	for (int i = 0; i < 8; i++) hash[i] ^= (unsigned char)(bits >> (56 - 8 * i));
	field_multiply(hash, hash_key);
	encrypt(key, nonce, mask);
	for (int i = 0; i < 16; i++) tag[i] = hash[i] ^ mask[i];
}

static void plain_crypt(const struct siv_key *key, const unsigned char counter[16], unsigned char *data, size_t length) {
	unsigned char block[16], stream[16];
	memcpy(block, counter, 16);
	for (size_t at = 0; at < length; at += 16) {
		encrypt(key, block, stream);
		for (size_t i = 0; i < 16 && at + i < length; i++) data[at + i] ^= stream[i];
		for (int i = 15; i >= 12 && ++block[i] == 0; i--) continue;
	}
}

static void plain_seal(const struct siv_key keys[2], unsigned char block[16], const unsigned char first[16],
                       unsigned char *data, size_t length) {
	unsigned char nonce[16] = {0}, tag[16];
	memcpy(nonce, block, 8);
	nonce[15] = 1;
	plain_mac(&keys[0], nonce, first, data, length, tag);
	for (int i = 0; i < 8; i++) block[8 + i] = tag[i] ^ tag[8 + i];
	encrypt(&keys[1], block, block);
	unsigned char counter[16];
	memcpy(counter, block, 16);
	counter[12] &= 0x7f;
	plain_crypt(&keys[1], counter, data, length);
}

static void bytes_of(const char *hex, unsigned char *bytes) {
	for (unsigned int value; sscanf(hex, "%2x", &value) == 1; hex += 2) *bytes++ = (unsigned char)value;
}

/* CAVP gcmEncryptExtIV256 without plain text: 128 bits of AAD, a tag of 128. */
static void check_gmac_vector(const struct siv *siv) {
	struct siv_key key;
	unsigned char bytes[32], nonce[16] = {0}, first[16], tag[16], right[16];
	bytes_of("78dc4e0aaf52d935c3c01eea57428f00ca1fd475f5da86a49c8dd73d68c8e223", bytes);
	bytes_of("d79cf22d504cc793c3fb6c8a00000001", nonce);
	bytes_of("b96baa8c1c75a671bfb2d08d06be5f36", first);
	bytes_of("3e5d486aa2e30b22e040b85723a06e76", right);
	make_key(&key, bytes);
	siv->mac(&key, nonce, first, NULL, 0, tag);
	assert(memcmp(tag, right, 16) == 0);
}

/* SP 800-38A F.5.5: CTR-AES256. */
static void check_ctr_vector(const struct siv *siv) {
	struct siv_key key;
	unsigned char bytes[32], counter[16], data[64], right[64];
	bytes_of("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", bytes);
	bytes_of("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", counter);
	bytes_of("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
	         "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
	         data);
	bytes_of("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
	         "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
	         right);
	make_key(&key, bytes);
	siv->crypt(&key, counter, data, sizeof data);
	assert(memcmp(data, right, sizeof data) == 0);
}

/* Whether a packet is opened that has one bit changed: of the block, of what is authenticated with it, of the data. */
static bool opened_changed(const struct siv *siv, const struct siv_key keys[2], unsigned char *bytes, size_t size,
                           const unsigned char block[16], const unsigned char first[16], unsigned char *data, size_t length,
                           const unsigned char *sealed) {
	size_t at = (size_t)(any() << 8 | any()) % size;
	unsigned char bit = (unsigned char)(1 << any() % 8);
	bytes[at] = (unsigned char)(bytes[at] ^ bit);
	memcpy(data, sealed, length);
	bool opened = siv->open(keys, block, first, data, length);
	bytes[at] = (unsigned char)(bytes[at] ^ bit);
	return opened;
}

/* The buffer ends with the data, so that the sanitizer sees the first byte too far. */
static void check_length(const struct siv *siv, const struct siv_key keys[2], size_t length, size_t shift) {
	size_t size = shift + length;
	unsigned char *memory = malloc(size ? size : 1), *original = malloc(length + 1), *sealed = malloc(length + 1);
	unsigned char first[16], block[16], right[16];
	assert(memory && original && sealed);
	unsigned char *data = memory + shift;
	for (size_t i = 0; i < length; i++) data[i] = sealed[i] = original[i] = any();
	for (int i = 0; i < 16; i++) first[i] = any(), block[i] = right[i] = any();
	plain_seal(keys, right, first, sealed, length);
	siv->seal(keys, block, first, data, length);
	assert(memcmp(block, right, 16) == 0 && memcmp(data, sealed, length) == 0);
	assert(siv->open(keys, block, first, data, length) && memcmp(data, original, length) == 0);
	assert(!opened_changed(siv, keys, block, 16, block, first, data, length, sealed));
	assert(!opened_changed(siv, keys, first, 16, block, first, data, length, sealed));
	assert(length == 0 || !opened_changed(siv, keys, sealed, length, block, first, data, length, sealed));
	free(sealed);
	free(original);
	free(memory);
}

static void check(const struct siv *siv) {
	static struct siv_key keys[2];
	unsigned char bytes[32];
	check_gmac_vector(siv);
	check_ctr_vector(siv);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 32; k++) bytes[k] = any();
		make_key(&keys[i], bytes);
	}
	for (size_t length = 0; length <= 400; length++) check_length(siv, keys, length, length % 33);
	for (size_t length = 1000; length < 16384; length += 977 + any()) check_length(siv, keys, length, any() % 33);
	printf("%s\n", siv->name);
}

int main(void) {
	make_sbox();
	const struct siv *narrow = siv_choose("sse"), *wide = siv_choose("vaes"), *best = siv_choose(NULL);
	__builtin_cpu_init();
	bool has_narrow = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
	bool has_wide = has_narrow && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
	assert(narrow == (has_narrow ? &siv_sse : NULL) && wide == (has_wide ? &siv_vaes : NULL));
	assert(best == (wide ? wide : narrow) && !siv_choose("core") && !siv_choose(""));
	if (narrow) check(narrow);
	if (wide) check(wide);
	return 0;
}
