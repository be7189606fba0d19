/* Packets that are made by hand, with the right MAC of a node whose secret the test has. */
#ifndef ZTNODE_TEST_FORGE_H
#define ZTNODE_TEST_FORGE_H

#include "pair.h"

#include "armor.h"
#include "identity.h"

enum { DESTINATION = 8, SOURCE = 13, FLAGS = 18, VERB = 27, MOON = 0x99 };
enum { VERB_OK = 3, VERB_WHOIS = 4 };

/* Of the core: keys, and signatures with them. */
struct keys {
	unsigned char public[64], private[64];
};
void core_agreeing(struct keys *keys) __asm__("_ZN8ZeroTier6C2551910_calcPubDHERNS0_4PairE");
void core_signing(struct keys *keys) __asm__("_ZN8ZeroTier6C2551910_calcPubEDERNS0_4PairE");
void core_sign(const unsigned char *private, const unsigned char *public, const void *message, unsigned int length,
               void *signature) __asm__("_ZN8ZeroTier6C255194signERKNS0_7PrivateERKNS0_6PublicEPKvjPv");

static void put_node(unsigned char *at, const char *public) {
	uint64_t byte;
	for (int i = 0; i < 5; i++) {
		char two[3] = {public[2 * i], public[2 * i + 1], 0};
		assert(parse_hex(two, 2, &byte));
		at[i] = (unsigned char)byte;
	}
}

static struct core_packet packet;

static void begin(const struct end *a, const struct end *from, unsigned char flags, unsigned char verb) {
	static unsigned char number;
	memset(packet.bytes, 0, sizeof packet.bytes);
	memset(packet.bytes, ++number, 8);
	put_node(packet.bytes + DESTINATION, a->public), put_node(packet.bytes + SOURCE, from->public);
	packet.bytes[FLAGS] = flags, packet.bytes[VERB] = verb;
	packet.length = VERB + 1;
}

static void append(uint64_t number, int bytes) {
	while (bytes--) packet.bytes[packet.length++] = (unsigned char)(number >> 8 * bytes);
}

static void seal_as(const struct end *a, const struct end *from, bool encrypt) {
	unsigned char public_key[64], private_key[64], key[32], own[80];
	put_identity(own, a->public);
	memcpy(public_key, own + 6, sizeof public_key);
	assert(identity_private_key(from->secret, private_key));
	core_agree(private_key, public_key, key, sizeof key);
	armor_seal(&packet, key, encrypt, NULL);
}

static void seal(const struct end *a, const struct end *from) { seal_as(a, from, true); }

static void receive(const struct end *a, const struct end *from, const void *bytes, unsigned int length) {
	ZT_Node_processWirePacket(a->core, NULL, core_time(), 1, &from->address, bytes, length, NULL);
}

static void receive_whole(const struct end *a, const struct end *from) { receive(a, from, packet.bytes, packet.length); }

static void make_moon(struct end *a, const struct end *root) {
	size_t size = 1 + 8 + 8 + 64 + 96;
	a->moon[0] = 127, a->moon[8] = MOON, a->moon[16] = 1;
	a->moon[size++] = 1;
	size += put_identity(a->moon + size, root->public);
	a->moon_size = size + 1 + 2; /* no addresses, nothing attached */
}

static void make_stranger(struct end *end) {
	start(end); /* makes the identity */
	ZT_Node_delete(end->core);
	assert(parse_address("203.0.113.7/9993", '/', &end->address));
}

#endif
