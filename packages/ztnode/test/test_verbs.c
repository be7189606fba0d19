#include "verbs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 60, VERB = 27, IN_RE_VERB = 28, IN_RE_ID = 29 };
enum { OK = 3, WHOIS = 4, FRAME = 6, LIKE = 9, CREDENTIALS, CONFIG_REQUEST, CONFIG, GATHER, COMPRESSED = 0x80 };

static enum verbs of(unsigned char verb, unsigned char asked, bool closed) {
	unsigned char packet[LENGTH] = {0};
	packet[VERB] = verb, packet[IN_RE_VERB] = asked, packet[IN_RE_ID + 3] = 1;
	return verbs_of(packet, sizeof packet, closed);
}

static void test_what_remotes_may(void) {
	for (unsigned char verb = 0; verb < 32; verb++) {
		assert(of(verb, 0x01, false) == VERBS_PASS);
		assert(of(verb | COMPRESSED, 0x01, false) == VERBS_PASS);
	}
	static const unsigned char refused[] = {WHOIS, CREDENTIALS, CONFIG_REQUEST, CONFIG, 0x0f, 0x11, 0x14, 0x15, 0x17, 0x1f};
	for (size_t i = 0; i < sizeof refused; i++) {
		assert(of(refused[i], 1, true) == VERBS_REFUSED);
		assert(of(refused[i] | COMPRESSED, 1, true) == VERBS_REFUSED);
	}
	assert(of(FRAME, 0, true) == VERBS_PASS && of(FRAME | COMPRESSED, 0, true) == VERBS_PASS);
	assert(of(LIKE, 0, true) == VERBS_MEMBERS && of(LIKE, 0, false) == VERBS_PASS);
}

static void test_answers(void) {
	assert(of(OK, 1, true) == VERBS_PASS && of(OK, 8, true) == VERBS_PASS && of(OK, GATHER, true) == VERBS_MEMBERS);
	static const unsigned char refused[] = {WHOIS, CONFIG_REQUEST, CONFIG, 0x20 + 1, 0xff};
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
	packet[VERB] = FRAME | COMPRESSED; /* the core takes it off itself */
	assert(!verbs_compressed(packet, sizeof packet));
}

static unsigned int taken_of(unsigned char node, enum verbs what, bool sealed, int64_t now) {
	unsigned char packet[LENGTH] = {[17] = node};
	unsigned int count = 0;
	for (int i = 0; i < 1000; i++) count += verbs_members(packet, what, sealed, now);
	return count;
}

static unsigned int taken(unsigned char node, int64_t now) { return taken_of(node, VERBS_MEMBERS, true, now); }

static void test_members_of_groups(void) {
	unsigned int burst = taken(1, 1000);
	assert(burst >= 50 && burst <= 200);
	assert(taken(1, 1000) == 0);
	assert(taken(2, 1000) == burst); /* another remote has its own */
	unsigned int second = taken(1, 2000);
	assert(second >= 1 && second <= 10);
	assert(taken(1, 1000 + 600000) == burst);
}

/* A remote answers each frame for a group; what anybody sends by a trusted path is without proof of who sent it. */
static void test_one_kind_leaves_the_others_theirs(void) {
	assert(of(OK, 0x0e, true) == VERBS_ANSWER);
	for (int64_t now = 2000000; now < 2100000; now += 1000) {
		taken_of(3, VERBS_ANSWER, true, now), taken_of(3, VERBS_MEMBERS, false, now);
		unsigned char like[LENGTH] = {[17] = 3};
		assert(verbs_members(like, VERBS_MEMBERS, true, now));
	}
}

int main(void) {
	test_what_remotes_may();
	test_answers();
	test_members_of_groups();
	test_one_kind_leaves_the_others_theirs();
	puts("test_verbs: ok");
	return 0;
}
