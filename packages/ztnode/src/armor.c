/* The core's AES-GMAC-SIV is computed by siv.h, where the CPU has the instructions for it.
 *
 * The core calls Packet::armor by way of its procedure linkage table, where a program comes before its libraries, and
 * Packet::dearmor likewise (decode.c, which asks here). Everything but the cipher with AES keys is left to the core: old
 * peers, packets that are signed only, lengths that it refuses. ZTNODE_CIPHER=core, sse or vaes in the environment
 * selects a version, for tests and to exclude one that misbehaves on some CPU. */
#include "armor.h"

#include "asked.h"
#include "core.h"
#include "shortcut.h"
#include "siv.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* A packet: IV, destination and source of 5 bytes each, flags with cipher and hops, MAC, then what is encrypted. */
enum { IV = 0, DESTINATION = 8, FLAGS = 18, MAC = 19, PAYLOAD = 27, HALF = 8, NAMES = 11, COUNTER = 12 };
enum { CIPHER = 0x38, AES_GMAC_SIV = 3 << 3, ENCRYPTED_OLD = 0x80, HOPS = 0x07 };

typedef void seal_function(void *packet, const void *key, bool encrypt, const void *aes);
static seal_function *core_seal;
static const struct siv *siv;

/* Before main, as decode.c does. */
__attribute__((constructor)) static void armor_begin(void) {
	void *found = dlsym(RTLD_NEXT, CORE_ARMOR);
	memcpy(&core_seal, &found, sizeof found);
	armor_select(getenv("ZTNODE_CIPHER"));
}

bool armor_select(const char *wanted) {
	siv = siv_choose(wanted);
	return siv || (wanted && strcmp(wanted, "core") == 0);
}

bool armor_works(void) { return core_seal; }
const char *armor_name(void) { return siv ? siv->name : "core"; }

static bool usable(const void *packet, const void *aes) {
	unsigned int length = core_packet_length(packet);
	return siv && aes && length > PAYLOAD && length <= CORE_PACKET_MAX;
}

/* What is authenticated and not encrypted. */
static void names_of(unsigned char first[16], const unsigned char *bytes, unsigned char flags) {
	memset(first, 0, 16);
	memcpy(first, bytes + DESTINATION, NAMES);
	first[FLAGS - DESTINATION] = flags;
}

bool armor_own(void) { return siv; }

void armor_seal_bytes(const struct siv_key keys[2], unsigned char *bytes, size_t length) {
	unsigned char block[16], first[16];
	bytes[FLAGS] = (unsigned char)((bytes[FLAGS] & ~(CIPHER | ENCRYPTED_OLD)) | AES_GMAC_SIV);
	names_of(first, bytes, bytes[FLAGS]);
	memcpy(block, bytes + IV, HALF);
	siv->seal(keys, block, first, bytes + PAYLOAD, length - PAYLOAD);
	memcpy(bytes + IV, block, HALF);
	memcpy(bytes + MAC, block + HALF, HALF);
}

bool armor_open_bytes(const struct siv_key keys[2], unsigned char *bytes, size_t length) {
	unsigned char block[16], first[16];
	names_of(first, bytes, bytes[FLAGS] & ~HOPS);
	memcpy(block, bytes + IV, HALF);
	memcpy(block + HALF, bytes + MAC, HALF);
	return siv->open(keys, block, first, bytes + PAYLOAD, length - PAYLOAD);
}

void armor_close_bytes(const struct siv_key keys[2], unsigned char *bytes, size_t length) {
	unsigned char counter[16];
	memcpy(counter, bytes + IV, HALF);
	memcpy(counter + HALF, bytes + MAC, HALF);
	counter[COUNTER] &= 0x7f; /* as siv.h does */
	siv->crypt(&keys[1], counter, bytes + PAYLOAD, length - PAYLOAD);
}

/* The same packet as it was composed; false where that cannot be told. The core may have compressed it. */
static bool plain_of(struct core_packet *plain, const void *packet, unsigned int length) {
	if (length > CORE_PACKET_MAX) return false;
	memcpy(plain->bytes, packet, length);
	plain->length = length;
	return core_uncompress(plain);
}

static void seal(void *packet, const void *key, bool encrypt, const void *aes) {
	if (encrypt && usable(packet, aes)) armor_seal_bytes(aes, packet, core_packet_length(packet));
	else if (core_seal) core_seal(packet, key, encrypt, aes);
}

/* What asks for members of a group is remembered by the number that it has on the wire, which the answer names. AES
 * encrypts the one that it had before. */
static void seal_question(void *packet, const void *key, bool encrypt, const void *aes) {
	struct core_packet plain;
	bool told = plain_of(&plain, packet, core_packet_length(packet));
	seal(packet, key, encrypt, aes);
	if (!told) return;
	memcpy(plain.bytes + IV, packet, HALF);
	asked_sending(plain.bytes, plain.length);
}

void armor_seal(void *packet, const void *key, bool encrypt, const void *aes) {
	shortcut_sealing(packet, encrypt, aes);
	if (asked_may_be(packet, core_packet_length(packet))) seal_question(packet, key, encrypt, aes);
	else seal(packet, key, encrypt, aes);
}

void armor_leaves_unsealed(const void *packet, unsigned int length) {
	struct core_packet plain;
	if (asked_unsealed(packet, length) && plain_of(&plain, packet, length)) asked_sending(plain.bytes, plain.length);
}

bool armor_open(void *packet, const void *aes, bool *good) {
	const unsigned char *bytes = packet;
	if (!usable(packet, aes) || (bytes[FLAGS] & CIPHER) != AES_GMAC_SIV) return false;
	*good = armor_open_bytes(aes, packet, core_packet_length(packet));
	return true;
}
