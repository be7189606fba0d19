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

static inline void append(uint64_t number, int bytes) {
	while (bytes--) packet.bytes[packet.length++] = (unsigned char)(number >> 8 * bytes);
}

static void seal_as(const struct end *a, const struct end *from, bool encrypt) {
	static unsigned char key[32];
	static const struct end *of_a, *of_from; /* their identities stay */
	if (of_a != a || of_from != from) {
		unsigned char public_key[64], private_key[64], own[80];
		put_identity(own, a->public);
		memcpy(public_key, own + 6, sizeof public_key);
		assert(identity_private_key(from->secret, private_key));
		core_agree(private_key, public_key, key, sizeof key);
		of_a = a, of_from = from;
	}
	armor_seal(&packet, key, encrypt, NULL);
}

static void seal(const struct end *a, const struct end *from) { seal_as(a, from, true); }

static void receive(const struct end *a, const struct end *from, const void *bytes, unsigned int length) {
	ZT_Node_processWirePacket(a->core, NULL, core_time(), 1, &from->address, bytes, length, NULL);
}

static void receive_whole(const struct end *a, const struct end *from) { receive(a, from, packet.bytes, packet.length); }

static inline void make_moon(struct end *a, const struct end *root) {
	size_t size = 1 + 8 + 8 + 64 + 96;
	a->moon[0] = 127, a->moon[8] = MOON, a->moon[16] = 1;
	a->moon[size++] = 1;
	size += put_identity(a->moon + size, root->public);
	a->moon_size = size + 1 + 2; /* no addresses, nothing attached */
}

static inline void make_stranger(struct end *end) {
	start(end); /* makes the identity */
	ZT_Node_delete(end->core);
	assert(parse_address("203.0.113.7/9993", '/', &end->address));
}

/* One more value of an end's configuration, which it has when it joins again: what a packet has behind its verb. */
static inline void put_value(struct end *end, const char *name) {
	size_t at = strlen(end->config);
	assert(at + strlen(name) + 3 + 2 * packet.length < sizeof end->config);
	at += (size_t)sprintf(end->config + at, "%s=", name);
	for (unsigned int i = VERB + 1; i < packet.length; i++) {
		static const char bytes[] = "\0\r\n=\\", letters[] = "0rne\\";
		const char *found = memchr(bytes, packet.bytes[i], sizeof bytes - 1);
		if (found) end->config[at++] = '\\', end->config[at++] = letters[found - bytes];
		else end->config[at++] = (char)packet.bytes[i];
	}
	end->config[at++] = '\n', end->config[at] = 0;
}

#endif
