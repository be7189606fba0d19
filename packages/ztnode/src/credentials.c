/* The core's forms: deserialize() of CertificateOfMembership, Capability, Tag, Revocation and CertificateOfOwnership, and
 * IncomingPacket.cpp for where they are. */
#include "credentials.h"

#include "util.h"

#include <stdbool.h>
#include <stdint.h>

enum { SOURCE = 13, VERB = 27, PAYLOAD = 28, VERB_MASK = 0x1f };
enum { VERB_OK = 3, VERB_EXT_FRAME = 7, VERB_CREDENTIALS = 0x0a, VERB_GATHER = 0x0d, VERB_GROUP_FRAME };
enum { HAS_CERTIFICATE = 1, FRAME_FLAGS = 36, GATHER_CERTIFICATE = 51, ANSWER_FLAGS = 55 };
enum { ADDRESS = 5, SIGNATURE = 96, ISSUED_TO = 2, RULES = 64, CUSTODIANS = 7, THINGS = 16, THING = 17 };

struct reader {
	const unsigned char *bytes;
	unsigned int at, length;
	bool good; /* it has not left the packet, and all was in the core's form */
};

static void skip(struct reader *reader, unsigned int bytes) {
	if (reader->good && bytes <= reader->length - reader->at) reader->at += bytes;
	else reader->good = false;
}

static uint64_t take(struct reader *reader, unsigned int bytes) {
	unsigned int at = reader->at;
	skip(reader, bytes);
	return reader->good ? number_at(reader->bytes + at, bytes) : 0;
}

static bool more(const struct reader *reader) { return reader->good && reader->at < reader->length; }

/* Whether a certificate of membership is empty or for that node. */
static bool certificate_for(struct reader *reader, uint64_t node) {
	reader->good = take(reader, 1) == 1 && reader->good;
	unsigned int count = (unsigned int)take(reader, 2);
	bool found = false;
	uint64_t issued_to = 0;
	for (unsigned int i = 0; i < count && reader->good; i++) {
		uint64_t id = take(reader, 8), value = take(reader, 8);
		skip(reader, 8);
		if (id == ISSUED_TO && !found) found = true, issued_to = value;
	}
	if (take(reader, ADDRESS)) skip(reader, SIGNATURE);
	return !count || issued_to == node;
}

static void skip_signature(struct reader *reader) {
	uint64_t kind = take(reader, 1), length = take(reader, 2);
	skip(reader, kind == 1 ? SIGNATURE : (unsigned int)length);
}

static void skip_rest(struct reader *reader) { skip(reader, (unsigned int)take(reader, 2)); }

static uint64_t capability(struct reader *reader) {
	uint64_t owner = 0;
	skip(reader, 8 + 8 + 4);
	for (uint64_t rules = take(reader, 2); rules && more(reader); rules--) {
		skip(reader, 1);
		skip(reader, (unsigned int)take(reader, 1));
	}
	skip(reader, 1);
	for (int i = 0; reader->good; i++) {
		uint64_t to = take(reader, ADDRESS);
		if (!to) break;
		if (i >= CUSTODIANS) reader->good = false;
		owner = to;
		skip(reader, ADDRESS);
		skip_signature(reader);
	}
	skip_rest(reader);
	return owner;
}

static uint64_t signed_for(struct reader *reader) {
	uint64_t owner = take(reader, ADDRESS);
	skip(reader, ADDRESS);
	skip_signature(reader);
	skip_rest(reader);
	return owner;
}

static uint64_t tag(struct reader *reader) {
	skip(reader, 8 + 8 + 4 + 4);
	return signed_for(reader);
}

static uint64_t ownership(struct reader *reader) {
	skip(reader, 8 + 8 + 8 + 4);
	uint64_t things = take(reader, 2);
	skip(reader, THING * (unsigned int)(things < THINGS ? things : THINGS));
	return signed_for(reader);
}

static void revocation(struct reader *reader) {
	skip(reader, 4 + 4 + 8 + 4 + 4 + 8 + 8 + ADDRESS + ADDRESS + 1);
	skip_signature(reader);
	skip_rest(reader);
}

/* All of a kind, which may be missing at the packet's end. */
static bool all_for(struct reader *reader, uint64_t (*owner)(struct reader *), uint64_t node) {
	if (!more(reader)) return true;
	for (uint64_t count = take(reader, 2); count && reader->good; count--)
		if (owner(reader) != node) return false;
	return true;
}

static enum credentials of_all(struct reader *reader, uint64_t node, unsigned int *revocations) {
	while (more(reader) && reader->bytes[reader->at])
		if (!certificate_for(reader, node)) return CREDENTIALS_OTHERS;
	if (more(reader)) skip(reader, 1);
	if (!all_for(reader, capability, node) || !all_for(reader, tag, node)) return CREDENTIALS_OTHERS;
	*revocations = more(reader) ? (unsigned int)take(reader, 2) : 0;
	for (unsigned int i = 0; i < *revocations && reader->good; i++) revocation(reader);
	if (!all_for(reader, ownership, node) || !reader->good) return CREDENTIALS_OTHERS;
	return *revocations ? CREDENTIALS_REVOKE : CREDENTIALS_OWN;
}

/* Where the certificate of a verb is that says with a flag whether it has one; 0: it has none. */
static unsigned int certificate_at(const unsigned char *packet, unsigned int length, unsigned int verb) {
	unsigned int flags = verb == VERB_OK ? ANSWER_FLAGS : FRAME_FLAGS;
	if (verb == VERB_OK && (length <= PAYLOAD || packet[PAYLOAD] != VERB_GROUP_FRAME)) return 0;
	if (length <= flags || !(packet[flags] & HAS_CERTIFICATE)) return 0;
	return verb == VERB_GATHER ? GATHER_CERTIFICATE : flags + 1;
}

enum credentials credentials_of(const unsigned char *packet, unsigned int length, unsigned int *revocations) {
	*revocations = 0;
	unsigned int verb = length > VERB ? packet[VERB] & VERB_MASK : 0;
	if (!(CREDENTIALS_VERBS & 1u << verb)) return CREDENTIALS_OWN;
	uint64_t node = number_at(packet + SOURCE, ADDRESS);
	struct reader reader = {packet, PAYLOAD, length, true};
	if (verb == VERB_CREDENTIALS) return of_all(&reader, node, revocations);
	unsigned int at = certificate_at(packet, length, verb);
	if (!at) return CREDENTIALS_OWN;
	reader.good = at <= length;
	reader.at = at;
	return certificate_for(&reader, node) && reader.good ? CREDENTIALS_OWN : CREDENTIALS_OTHERS;
}
