#include "verbs.h"

#include "asked.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 60, VERB = 27, IN_RE_VERB = 28, IN_RE_ID = 29 };
enum {
	OK = 3,
	WHOIS = 4,
	RENDEZVOUS = 5,
	FRAME = 6,
	LIKE = 9,
	CREDENTIALS,
	CONFIG_REQUEST,
	CONFIG,
	GATHER,
	GROUP_FRAME,
	COMPRESSED = 0x80
};

static enum verbs of(unsigned char verb, unsigned char asked, bool closed) {
	unsigned char packet[LENGTH] = {0};
	packet[VERB] = verb, packet[IN_RE_VERB] = asked, packet[IN_RE_ID + 3] = 1;
	return verbs_of(packet, sizeof packet, closed);
}

static void test_what_remotes_may(void) {
	for (unsigned char verb = 0; verb < 32; verb++) {
		enum verbs expected = verb == LIKE ? VERBS_MEMBERS : verb == GATHER ? VERBS_QUESTION : VERBS_PASS;
		if (verb == CREDENTIALS) expected = VERBS_REFUSED; /* cut short */
		assert(of(verb, 0x01, false) == expected);
		assert(of(verb | COMPRESSED, 0x01, false) == expected);
	}
	static const unsigned char refused[] = {WHOIS, CREDENTIALS, CONFIG_REQUEST, CONFIG, 0x0f, 0x11, 0x14, 0x15, 0x17, 0x1f};
	for (size_t i = 0; i < sizeof refused; i++) {
		assert(of(refused[i], 1, true) == VERBS_REFUSED);
		assert(of(refused[i] | COMPRESSED, 1, true) == VERBS_REFUSED);
	}
	assert(of(FRAME, 0, true) == VERBS_PASS && of(FRAME | COMPRESSED, 0, true) == VERBS_PASS);
	assert(of(LIKE, 0, true) == VERBS_MEMBERS && of(GATHER, 0, true) == VERBS_QUESTION);
	assert(of(RENDEZVOUS, 0, true) == VERBS_MEETING && of(RENDEZVOUS, 0, false) == VERBS_PASS);
}

static void test_answers(void) {
	assert(of(OK, 1, true) == VERBS_PASS && of(OK, 8, true) == VERBS_PASS);
	static const unsigned char refused[] = {WHOIS, CONFIG_REQUEST, CONFIG, GATHER,
	                                        0x0e,  0x20 + 1,       0xff}; /* GATHER: too short */
	for (size_t i = 0; i < sizeof refused; i++) assert(of(OK, refused[i], true) == VERBS_REFUSED);
	unsigned char packet[LENGTH] = {0};
	packet[IN_RE_VERB] = 1, packet[IN_RE_ID + 4] = 1; /* the upper half of the number is zero */
	for (unsigned char verb = 2; verb <= OK; verb++) {
		packet[VERB] = verb;
		assert(verbs_of(packet, sizeof packet, false) == VERBS_REFUSED);
		assert(verbs_of(packet, sizeof packet, true) == VERBS_REFUSED);
	}
	for (unsigned int length = 0; length < IN_RE_ID + 8; length++) (void)verbs_of(packet, length, true);
	assert(!verbs_compressed(packet, sizeof packet) && !verbs_compressed(packet, VERB));
	packet[VERB] |= COMPRESSED;
	assert(verbs_compressed(packet, sizeof packet));
	packet[VERB] = LIKE | COMPRESSED; /* its groups are counted */
	assert(verbs_compressed(packet, sizeof packet));
	packet[VERB] = CREDENTIALS | COMPRESSED; /* somebody's */
	assert(verbs_compressed(packet, sizeof packet));
	packet[VERB] = FRAME | COMPRESSED; /* the core takes it off itself */
	assert(!verbs_compressed(packet, sizeof packet));
}

static unsigned int taken_of(uint64_t node, enum verbs what, unsigned int length, bool sealed, int64_t now) {
	unsigned char packet[LENGTH] = {0};
	for (int i = 0; i < 5; i++) packet[13 + i] = (unsigned char)(node >> (32 - 8 * i));
	unsigned int count = 0;
	while (count < 100000 && verbs_in_budget(packet, length, what, sealed, now)) count++;
	return count;
}

#define NODE 0x1122334455ULL
enum { ONE = 28, FULL = 28 + 18 * 77 };

/* Groups count, however many are in a packet. */
static void test_groups(void) {
	unsigned int burst = taken_of(NODE, VERBS_MEMBERS, ONE, true, 1000);
	assert(burst >= 2000 && burst <= 10000);
	assert(taken_of(NODE, VERBS_MEMBERS, ONE, true, 1000) == 0);
	/* another remote has its own, one with the same sum of bytes, too */
	assert(taken_of(NODE ^ 0x0101, VERBS_MEMBERS, ONE, true, 1000) == burst);
	unsigned int full = taken_of(NODE + 1, VERBS_MEMBERS, FULL, true, 1000);
	assert(full >= burst / 80 && full <= burst / 77);
	/* 1024 groups in packets of 77, once a minute */
	for (int64_t now = 2000000; now < 2600000; now += 60000)
		for (int i = 0; i < 14; i++) {
			unsigned char like[LENGTH] = {[17] = 9};
			bool in = verbs_in_budget(like, FULL, VERBS_MEMBERS, true, now);
			assert(in);
		}
	unsigned int second = taken_of(NODE, VERBS_MEMBERS, ONE, true, 2000);
	assert(second >= 10 && second <= 100);
	assert(taken_of(NODE, VERBS_MEMBERS, ONE, true, 2000 + 600000) == burst);
}

/* However often a node asks for members, the groups that it is in are heard. */
static void test_questions(void) {
	unsigned int burst = taken_of(NODE, VERBS_QUESTION, ONE, true, 4000000);
	assert(burst >= 2000 && burst <= 10000 && taken_of(NODE, VERBS_QUESTION, FULL, true, 4001000) >= 10);
	assert(taken_of(NODE, VERBS_MEMBERS, ONE, true, 4001000) > 1000);
}

static void test_meetings(void) {
	unsigned int burst = taken_of(NODE, VERBS_MEETING, ONE, true, 5000000);
	assert(burst >= 64 && burst <= 256 && taken_of(NODE, VERBS_MEETING, ONE, true, 5002000) <= 16);
	assert(taken_of(NODE, VERBS_MEMBERS, ONE, true, 5002000) > 1000); /* each kind has its own */
	assert(taken_of(NODE, VERBS_ANSWER, ONE, true, 5002000) > 1000);
}

/* They count, however many are in a packet. */
static unsigned int revocations_of(uint64_t node, unsigned char each, int64_t now) {
	enum { REVOCATION = 56, COUNT = 33 }; /* without a signature; after no certificates, capabilities and tags */
	unsigned char packet[COUNT + 2 + 8 * REVOCATION] = {[VERB] = CREDENTIALS, [COUNT + 1] = each};
	for (int i = 0; i < 5; i++) packet[13 + i] = (unsigned char)(node >> (32 - 8 * i));
	unsigned int length = COUNT + 2u + each * REVOCATION, count = 0;
	assert(verbs_of(packet, length, false) == VERBS_REVOKE && verbs_of(packet, length - 1, false) == VERBS_REFUSED);
	while (count < 100000 && verbs_in_budget(packet, length, VERBS_REVOKE, true, now)) count++;
	return count;
}

static void test_revocations(void) {
	assert(revocations_of(NODE, 1, 5500000) == 256 && revocations_of(NODE, 1, 5502000) == 2);
	assert(revocations_of(9, 8, 5500000) == 32 && revocations_of(9, 8, 5507000) == 0 && revocations_of(9, 8, 5508000) == 1);
}

/* What anybody sends by a trusted path is without proof of who sent it. */
static void test_one_kind_leaves_the_others_theirs(void) {
	assert(taken_of(3, VERBS_MEMBERS, ONE, false, 6000000) > 1000);
	assert(taken_of(3, VERBS_MEMBERS, ONE, true, 6000000) > 1000);
}

/* As many as there are remotes, and more than that. */
static void test_many_nodes(void) {
	unsigned int served = 0;
	for (uint64_t node = 1; node < 5000; node++)
		served += taken_of(node << 8, VERBS_MEETING, ONE, true, 7000000 + (int64_t)node) > 0;
	assert(served == 4999);
	/* Who has used its budget up has a new one once 2048 others were there since, and not before. */
	uint64_t last = 4999 << 8;
	for (int64_t node = 1; node < 2000; node++) taken_of((uint64_t)node << 8, VERBS_MEETING, ONE, true, 7005000 + node);
	assert(taken_of(last, VERBS_MEETING, ONE, true, 7007000) <= 16);
}

static void put_node(unsigned char *at, uint64_t node) {
	for (int i = 0; i < 5; i++) at[i] = (unsigned char)(node >> (32 - 8 * i));
}

#define REMOTE 0x2222222222ULL

static void ask(uint64_t node, unsigned char verb, unsigned char number) {
	unsigned char packet[LENGTH] = {[3] = number, [VERB] = verb};
	put_node(packet + 8, node);
	asked_sending(packet, sizeof packet);
}

/* An answer with so many members of which one is `node`. */
static enum verbs naming(unsigned int count, uint64_t node) {
	unsigned char packet[61 + 5 * 100] = {0};
	packet[VERB] = OK, packet[IN_RE_VERB] = GATHER, packet[IN_RE_ID + 3] = 1;
	put_node(packet + 8, 0x1111111111), put_node(packet + 13, REMOTE);
	packet[59] = (unsigned char)(count >> 8), packet[60] = (unsigned char)count;
	for (unsigned int i = 0; i < count && i < 100; i++) put_node(packet + 61 + 5 * i, i == count / 2 ? node : 0x2222222222);
	for (unsigned int length = 0; length < 61 + 5 * count && length <= sizeof packet; length++) {
		unsigned char *exact = malloc(length + 1); /* the sanitizer sees a read beyond its end */
		assert(exact);
		memcpy(exact, packet, length);
		enum verbs cut = verbs_of(exact, length, true);
		assert(cut != VERBS_ANSWER);
		free(exact);
	}
	return verbs_of(packet, sizeof packet, true);
}

static void test_who_may_be_named(void) {
	const uint64_t remotes[] = {0x2222222222, 0x3333333333};
	bool taken = verbs_know(remotes, 2);
	assert(taken);
	ask(REMOTE, GATHER, 1);
	assert(naming(0, 0) == VERBS_ANSWER);
	assert(naming(1, 0x1111111111) == VERBS_ANSWER && naming(1, 0x3333333333) == VERBS_ANSWER);
	assert(naming(1, 0x4444444444) == VERBS_REFUSED && naming(31, 0x4444444444) == VERBS_REFUSED);
	assert(naming(64, 0x3333333333) == VERBS_ANSWER && naming(65, 0x3333333333) == VERBS_REFUSED);
	assert(naming(65535, 0) == VERBS_REFUSED);
}

static enum verbs told_by(uint64_t node, unsigned char asked, unsigned char number) {
	unsigned char packet[100] = {[VERB] = OK, [IN_RE_VERB] = asked, [IN_RE_ID + 3] = number};
	put_node(packet + 13, node);
	return verbs_of(packet, sizeof packet, false);
}

/* Members come in answers alone, of whom was asked, to what was asked, at any gate. */
static void test_who_may_name(void) {
	ask(REMOTE, GATHER, 7), ask(REMOTE, GROUP_FRAME, 8), ask(REMOTE, FRAME, 9), ask(REMOTE, 1, 10);
	asked_sending((unsigned char[LENGTH]){[3] = 11, [VERB] = GATHER}, VERB); /* cut off */
	assert(told_by(REMOTE, GATHER, 7) == VERBS_ANSWER && told_by(REMOTE, GROUP_FRAME, 8) == VERBS_ANSWER);
	assert(told_by(REMOTE + 1, GATHER, 7) == VERBS_REFUSED && told_by(REMOTE + 1, GROUP_FRAME, 8) == VERBS_REFUSED);
	assert(told_by(REMOTE, GROUP_FRAME, 7) == VERBS_REFUSED && told_by(REMOTE, GATHER, 8) == VERBS_REFUSED);
	for (unsigned char number = 9; number < 13; number++)
		assert(told_by(REMOTE, GATHER, number) == VERBS_REFUSED && told_by(REMOTE, GROUP_FRAME, number) == VERBS_REFUSED);
	assert(told_by(0, GATHER, 11) == VERBS_REFUSED && told_by(REMOTE, 1, 12) == VERBS_PASS);
	/* of another network */
	unsigned char answer[100] = {[VERB] = OK, [IN_RE_VERB] = GATHER, [IN_RE_ID + 3] = 7};
	put_node(answer + 13, REMOTE);
	assert(verbs_of(answer, sizeof answer, false) == VERBS_ANSWER);
	answer[44] = 1;
	assert(verbs_of(answer, sizeof answer, false) == VERBS_REFUSED);
	/* by a trusted path, as it leaves; not what is encrypted, and no fragment */
	unsigned char unsealed[LENGTH] = {[18] = 0x10, [VERB] = GATHER};
	for (unsigned int length = 0; length < 36; length++) assert(!asked_unsealed(unsealed, length));
	assert(asked_unsealed(unsealed, sizeof unsealed));
	unsealed[VERB] = FRAME;
	assert(!asked_unsealed(unsealed, sizeof unsealed));
	unsealed[VERB] = GATHER | 0x80, unsealed[18] = 0x18;
	assert(!asked_unsealed(unsealed, sizeof unsealed));
	unsealed[18] = 0x10, unsealed[13] = 0xff;
	assert(!asked_unsealed(unsealed, sizeof unsealed));
	unsealed[13] = 0;
	assert(asked_unsealed(unsealed, sizeof unsealed));
	/* the same place in the table */
	unsigned char other[LENGTH] = {[2] = 0x10, [3] = 7, [VERB] = GATHER};
	put_node(other + 8, REMOTE);
	asked_sending(other, sizeof other);
	assert(told_by(REMOTE, GATHER, 7) == VERBS_REFUSED);
}

int main(void) {
	test_what_remotes_may();
	test_answers();
	test_who_may_be_named();
	test_who_may_name();
	test_groups();
	test_questions();
	test_meetings();
	test_revocations();
	test_one_kind_leaves_the_others_theirs();
	test_many_nodes();
	puts("test_verbs: ok");
	return 0;
}
