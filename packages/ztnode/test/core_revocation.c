/* Whose credentials the controller has revoked is not let in again with the old ones, also if he is no peer at the time and
 * what the core knows of such members is thrown away each minute. */
#include "forge.h"

#include "expiry.h"

enum { VERB_HELLO = 1, VERB_FRAME = 6, VERB_CREDENTIALS = 10, ISSUED = 5000, MINUTE_MS = 61000 };

static struct keys controller; /* public: the second half of an identity's, for signatures */

static void put_signature(const unsigned char *message, unsigned int length) {
	unsigned char signature[96];
	core_sign(controller.private, controller.public, message, length, signature);
	memcpy(packet.bytes + packet.length, signature, sizeof signature), packet.length += sizeof signature;
}

static uint64_t node_of(const struct end *end) { return strtoull(end->public, NULL, 16); }

static void put_certificate(const struct end *member) {
	append(1, 1), append(3, 2);
	unsigned int at = packet.length;
	append(0, 8), append(ISSUED, 8), append(7200000, 8);
	append(1, 8), append(NETWORK, 8), append(0, 8);
	append(2, 8), append(node_of(member), 8), append(~0ULL, 8);
	unsigned int length = packet.length - at;
	append(NETWORK >> 24, 5);
	put_signature(packet.bytes + at, length);
}

/* Of the certificate of membership, by the controller. */
static void expel(struct end *a, const struct end *b, const struct end *member) {
	begin(a, b, 0, VERB_CREDENTIALS);
	append(0, 1), append(0, 2), append(0, 2), append(1, 2);
	unsigned int at = packet.length;
	append(0, 4), append(77, 4), append(NETWORK, 8), append(0, 8), append(ISSUED, 8), append(1, 8);
	append(node_of(member), 5), append(NETWORK >> 24, 5), append(1, 1);
	unsigned char message[200] = {0};
	unsigned int length = packet.length - at;
	memset(message, 0x7f, 8), memcpy(message + 8, packet.bytes + at, length), memset(message + 10 + length, 0x7f, 8);
	append(1, 1), append(96, 2);
	put_signature(message, length + 18);
	append(0, 2), append(0, 2);
	seal(a, b), receive_whole(a, b);
}

/* How many of its frames arrive after it has shown its certificate. */
static int let_in(struct end *ends, struct end *member) {
	struct end *a = &ends[0];
	clock_error += 5000; /* the core verifies one identity of an address in a second */
	begin(a, member, 0, VERB_HELLO);
	append(12, 1), append(1, 1), append(8, 1), append(4, 2), append((uint64_t)core_time(), 8);
	packet.length += (unsigned int)put_identity(packet.bytes + packet.length, member->public);
	seal_as(a, member, false), receive_whole(a, member);
	begin(a, member, 0, VERB_CREDENTIALS);
	put_certificate(member), append(0, 1), append(0, 8);
	seal(a, member), receive_whole(a, member);
	a->frames = 0;
	begin(a, member, 0, VERB_FRAME);
	append(NETWORK, 8), append(0x0800, 2), append(0x45000028, 4), append(0, 8), append(0, 8), append(0, 8), append(0, 8);
	seal(a, member), receive_whole(a, member);
	return a->frames;
}

static void a_minute_later(struct end *ends) {
	clock_error += MINUTE_MS;
	for (int i = 0; i < 2; i++) ends[i].deadline = 0;
	work(ends, 300);
}

int main(void) {
	static struct end ends[2], good, bad, absent; /* the last is no peer before it shows its certificate */
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works() && expiry_works());
	pair_begin(ends);
	make_stranger(&good), make_stranger(&bad), make_stranger(&absent);
	test_network = node_of(b) << 24 | 1;
	unsigned char own[80];
	put_identity(own, b->public);
	memcpy(controller.public, own + 6, sizeof controller.public);
	assert(identity_private_key(b->secret, controller.private));
	configure(a, false, 1400);
	begin(a, b, 0, VERB_CREDENTIALS), put_certificate(a), put_value(a, "C"), join(a);
	work(ends, 1000);
	int before = let_in(ends, &good);
	expel(a, b, &bad);
	int at_once = let_in(ends, &bad);
	a_minute_later(ends);
	expel(a, b, &absent);
	for (int i = 0; i < 3; i++) a_minute_later(ends);
	int later = let_in(ends, &absent), others = let_in(ends, &good);
	printf("core_revocation: %d frames at once, %d three minutes later, %d of another\n", at_once, later, others);
	assert(before == 1 && at_once == 0 && later == 0 && others == 1);
	pair_end(ends);
	return 0;
}
