/* Credentials on a network whose members are not known beforehand, with real cores: those that are not their sender's own
 * take no memory, whatever brings them, a member's own pass, and of what the core keeps nothing stays of who is no peer. */
#include "forge.h"

#include "credentials.h"
#include "expiry.h"

#include <malloc.h>

enum { VERB_EXT_FRAME = 7, VERB_CREDENTIALS = 10, VERB_GATHER = 13, VERB_GROUP_FRAME };
enum { COUNT = 2000, MINUTE_MS = 61000 };

/* -- in the core's form */

static void put_signature(void) {
	append(1, 1), append(96, 2);
	memset(packet.bytes + packet.length, 0x5a, 96), packet.length += 96;
}

static void put_certificate(uint64_t node) {
	append(1, 1), append(3, 2);
	append(0, 8), append(1, 8), append(0, 8);
	append(1, 8), append(NETWORK, 8), append(0, 8);
	append(2, 8), append(node, 8), append(0, 8);
	append(NETWORK >> 24, 5);
	memset(packet.bytes + packet.length, 0x5a, 96), packet.length += 96;
}

static void put_capability(uint64_t node) {
	append(NETWORK, 8), append(9, 8), append(4, 4);
	append(2, 2), append(37, 1), append(2, 1), append(0x0800, 2), append(1, 1), append(0, 1); /* by type; accept */
	append(1, 1), append(node, 5), append(NETWORK >> 24, 5), put_signature(), append(0, 5);
	append(0, 2);
}

static void put_tag(uint64_t node) {
	append(NETWORK, 8), append(9, 8), append(4, 4), append(7, 4);
	append(node, 5), append(NETWORK >> 24, 5), put_signature(), append(0, 2);
}

static void put_ownership(uint64_t node) {
	append(NETWORK, 8), append(9, 8), append(0, 8), append(4, 4), append(1, 2);
	append(1, 1), append(1, 8), append(2, 8);
	append(node, 5), append(NETWORK >> 24, 5), put_signature(), append(0, 2);
}

static void put_revocation(uint64_t node) {
	append(0, 4), append(3, 4), append(NETWORK, 8), append(0, 4), append(4, 4), append(9, 8), append(0, 8);
	append(node, 5), append(NETWORK >> 24, 5), append(1, 1), put_signature(), append(0, 2);
}

/* -- whose they are */

enum kind { CERTIFICATE, CAPABILITY, TAG, REVOCATION, OWNERSHIP, KINDS };
static void (*const puts_kind[KINDS])(uint64_t) = {put_certificate, put_capability, put_tag, put_revocation, put_ownership};

/* A packet with one credential of a kind. */
static void put_credentials(enum kind kind, uint64_t node) {
	if (kind == CERTIFICATE) put_certificate(node);
	append(0, 1);
	for (int other = CAPABILITY; other < KINDS; other++) {
		append((unsigned)kind == (unsigned)other, 2);
		if ((unsigned)kind == (unsigned)other) puts_kind[kind](node);
	}
}

static size_t in_use(void) { return mallinfo2().uordblks; }

/* Memory for credentials of so many others, in frames, questions, answers and by themselves. */
static size_t by_frames(struct end *a, const struct end *from, unsigned char verb) {
	size_t before = in_use();
	for (uint64_t i = 0; i < COUNT; i++) {
		begin(a, from, 0, verb);
		if (verb == VERB_OK)
			append(VERB_GROUP_FRAME, 1), append(a->last_hello, 8), append(NETWORK, 8), append(0, 10), append(1, 1);
		else append(NETWORK, 8), append(1, 1);
		if (verb == VERB_GATHER) append(0, 14);
		put_certificate(0x1000000000 + 7 * i);
		append(0, 6), append(0, 6), append(0x0800, 2), append(0, 4);
		seal(a, from), receive_whole(a, from);
	}
	return in_use() - before;
}

static size_t by_kind(struct end *a, const struct end *from, enum kind kind) {
	size_t before = in_use();
	for (uint64_t i = 0; i < COUNT; i++) {
		begin(a, from, 0, VERB_CREDENTIALS);
		put_credentials(kind, 0x2000000000 + 7 * i);
		seal(a, from), receive_whole(a, from);
	}
	return in_use() - before;
}

/* -- what the core sends itself */

static unsigned int by_owner, by_others;
enum credentials __real_credentials_of(const unsigned char *bytes, unsigned int length, unsigned int *revocations);
enum credentials __wrap_credentials_of(const unsigned char *bytes, unsigned int length, unsigned int *revocations);
enum credentials __wrap_credentials_of(const unsigned char *bytes, unsigned int length, unsigned int *revocations) {
	enum credentials whose = __real_credentials_of(bytes, length, revocations);
	by_owner += whose == CREDENTIALS_OWN && length > VERB && (bytes[VERB] & 0x1f) == VERB_CREDENTIALS;
	by_others += whose == CREDENTIALS_OTHERS;
	return whose;
}

/* It sends the credentials of its configuration, one of each kind. */
static void send_own(struct end *ends) {
	static const struct {
		const char *name;
		enum kind kind;
	} parts[] = {{"C", CERTIFICATE}, {"CAP", CAPABILITY}, {"TAG", TAG}, {"COO", OWNERSHIP}};
	struct end *b = &ends[1];
	uint64_t node = strtoull(b->public, NULL, 16);
	configure(b, false, 1400);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		begin(b, b, 0, VERB_CREDENTIALS);
		puts_kind[parts[i].kind](node);
		put_value(b, parts[i].name);
	}
	join(b);
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, ends[0].mac, frame, sizeof frame);
	work(ends, 100);
	printf("core_credentials: %u packets with a node's own, %u with others'\n", by_owner, by_others);
	assert(by_owner == 1 && by_others == 0);
}

/* -- in time */

/* Frames to addresses that nobody has: the core makes an entry for each. */
static size_t to_made_up(struct end *ends) {
	size_t before = in_use();
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	for (uint64_t i = 0; i < COUNT; i++)
		send_frame(&ends[0], ends[0].mac, ends[0].mac ^ (0x10000 + 3 * i), frame, sizeof frame);
	return in_use() - before;
}

static void a_minute_later(struct end *ends) {
	clock_error += MINUTE_MS;
	for (int i = 0; i < 2; i++) ends[i].deadline = 0;
	work(ends, 300);
}

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works() && expiry_works());
	pair_begin(ends);
	configure(a, true, 1400), configure(b, true, 1400);
	work(ends, 1000);

	static const unsigned char verbs[] = {VERB_OK, VERB_EXT_FRAME, VERB_GATHER, VERB_GROUP_FRAME};
	for (size_t i = 0; i < sizeof verbs; i++) {
		size_t bytes = by_frames(a, b, verbs[i]);
		printf("core_credentials: verb %u with %d others': %zu kB\n", verbs[i], COUNT, bytes >> 10);
		assert(bytes < 100 << 10);
	}
	for (int kind = CERTIFICATE; kind < KINDS; kind++) {
		size_t bytes = by_kind(a, b, (enum kind)kind);
		printf("core_credentials: kind %d of %d others: %zu kB\n", kind, COUNT, bytes >> 10);
		assert(bytes < (kind == REVOCATION ? 400 : 100) << 10); /* so many as may be handed on at once */
		assert(kind != REVOCATION || bytes > 50 << 10);
	}
	by_owner = by_others = 0;
	send_own(ends);
	size_t before = in_use(), made_up = to_made_up(ends);
	a_minute_later(ends);
	size_t left = in_use() > before ? in_use() - before : 0;
	printf("core_credentials: %zu kB for addresses that nobody has, %zu kB a minute later\n", made_up >> 10, left >> 10);
	assert(made_up > 500 << 10 && left < made_up / 10);
	a->frames = 0;
	configure(b, true, 1400);
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 100);
	assert(a->frames == 1); /* and it goes on */
	pair_end(ends);
	return 0;
}
