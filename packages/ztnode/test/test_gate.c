/* What the gate lets through, packet by packet, and how many strangers at most. */
#include "gate.h"
#include "util.h"

#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SELF 0x1111111111
#define REMOTE 0x2222222222
#define OTHER 0x0333333333
#define NOBODY 0x4444444444
#define START 1700000000000

static bool genuine; /* the answer about the MAC of every HELLO */
static int asked;

// cppcheck-suppress constParameter
static bool authentic(void *context, size_t remote, const unsigned char *packet, size_t length) {
	assert(context == &asked && remote == (packet[13] == 0x22 ? 1 : 0) && length >= 41);
	asked++;
	return genuine;
}

static struct gate *closed_gate(void) {
	struct gate *gate = gate_new(SELF, 7);
	gate_close(gate, (const uint64_t[]){OTHER, REMOTE}, 2, authentic, &asked);
	genuine = true;
	asked = 0;
	return gate;
}

static struct sockaddr_storage place(unsigned int host) {
	struct sockaddr_storage storage = {0};
	struct sockaddr_in *address = (struct sockaddr_in *)&storage;
	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(0xc6336400 + host / 60000);
	address->sin_port = htons((uint16_t)(1000 + host % 60000));
	return storage;
}

static void put(unsigned char *at, uint64_t number, int bytes) {
	for (int i = bytes - 1; i >= 0; i--, number >>= 8) at[i] = (unsigned char)number;
}

static const unsigned char *packet(uint64_t from, uint64_t to) {
	static unsigned char bytes[200];
	memset(bytes, 0, sizeof bytes);
	put(bytes + 8, to, 5);
	put(bytes + 13, from, 5);
	bytes[18] = 0x18; /* AES, not signed only */
	return bytes;
}

static const unsigned char *hello(uint64_t from, uint64_t time) {
	unsigned char *bytes = (unsigned char *)packet(from, SELF);
	bytes[18] = 2; /* hops do not count */
	bytes[27] = 1;
	put(bytes + 33, time, 8);
	return bytes;
}

static const unsigned char *fragment(uint64_t to) {
	unsigned char *bytes = (unsigned char *)packet(0, to);
	bytes[13] = 0xff;
	return bytes;
}

static bool pass(struct gate *gate, unsigned int host, const unsigned char *bytes, int64_t now) {
	struct sockaddr_storage from = place(host);
	return gate_pass(gate, &from, bytes, 200, now);
}

static void only_configured_nodes_pass_a_closed_gate(void) {
	struct gate *gate = closed_gate();
	struct sockaddr_storage from = place(1);
	gate_know(gate, &from, 1);
	assert(pass(gate, 1, packet(REMOTE, SELF), START));
	assert(pass(gate, 1, packet(REMOTE, OTHER), START)); /* relayed */
	assert(pass(gate, 1, fragment(SELF), START) && pass(gate, 1, fragment(OTHER), START));
	assert(!pass(gate, 1, packet(NOBODY, SELF), START));
	assert(!pass(gate, 1, packet(REMOTE, NOBODY), START));
	assert(!pass(gate, 1, packet(SELF, SELF), START));
	assert(!pass(gate, 1, packet(REMOTE, REMOTE), START)); /* would be introduced to itself */
	assert(!pass(gate, 1, fragment(NOBODY), START));
	for (size_t length = 0; length < 28; length++) assert(!gate_pass(gate, &from, packet(REMOTE, SELF), length, START));
	for (size_t length = 0; length < 17; length++) assert(!gate_pass(gate, &from, fragment(SELF), length, START));
	assert(gate_pass(gate, &from, fragment(SELF), 17, START));
	((struct sockaddr_in *)&from)->sin_port = 0; /* nothing can be sent there */
	assert(!gate_pass(gate, &from, packet(REMOTE, SELF), 200, START));
	assert(!gate_pass(gate, &from, hello(REMOTE, 5000), 200, START) && asked == 0);
	assert(gate_counts(gate).foreign == 7 + 28 + 17 && gate_counts(gate).strangers == 0);
	gate_free(gate);
}

static void a_flood_of_sources_is_a_few_guests_a_second(void) {
	struct gate *gate = closed_gate();
	struct sockaddr_storage home = place(1);
	gate_know(gate, &home, 1);
	int in = 0, all = 0;
	for (int64_t now = START; now < START + 10000; now++) {
		for (int i = 0; i < 50; i++) in += pass(gate, (unsigned int)(2 + all++), packet(REMOTE, SELF), now);
		assert(pass(gate, 1, packet(REMOTE, SELF), now));
	}
	assert(in >= 200 && in <= 64 + 10 * 20);
	assert(gate_counts(gate).strangers == (uint64_t)(all - in));
	gate_free(gate);
}

static void guests_share_a_number_of_packets(void) {
	struct gate *gate = closed_gate();
	int in = 0;
	for (int64_t now = START; now < START + 1000; now++)
		for (int i = 0; i < 200; i++) in += pass(gate, 5, packet(REMOTE, SELF), now);
	assert(in >= 10000 && in <= 12000);
	gate_free(gate);
}

/* Bring the flood to where no stranger has a chance. */
static unsigned int exhaust(struct gate *gate, int64_t now) {
	unsigned int host = 1000;
	for (int refused = 0; refused < 500; host++) refused += !pass(gate, host, packet(REMOTE, SELF), now);
	return host;
}

static void a_remote_that_has_moved_proves_it_in_the_midst_of_a_flood(void) {
	struct gate *gate = closed_gate();
	unsigned int host = exhaust(gate, START);
	assert(!pass(gate, host, packet(REMOTE, SELF), START));
	assert(pass(gate, host, hello(REMOTE, 5000), START));
	for (int i = 0; i < 20000; i++) assert(pass(gate, host, packet(REMOTE, SELF), START + 1)); /* no share of others' */
	assert(pass(gate, host, fragment(SELF), START + GATE_GUEST_MS - 1));
	exhaust(gate, START + GATE_GUEST_MS);
	assert(!pass(gate, host, packet(REMOTE, SELF), START + GATE_GUEST_MS));
	gate_free(gate);
}

static void a_remote_has_some_addresses_and_not_any_number(void) {
	struct gate *gate = closed_gate();
	unsigned int host = exhaust(gate, START);
	int in = 0;
	for (unsigned int i = 0; i < 10000; i++) in += pass(gate, host + i, hello(REMOTE, 5000 + i), START) != GATE_REFUSED;
	assert(in >= 32 && in <= 128);
	assert(pass(gate, host, hello(REMOTE, 20000), START));     /* it may go on where it has proved to be */
	assert(pass(gate, host + 20000, hello(OTHER, 17), START)); /* another has its own */
	in = 0;
	for (unsigned int i = 0; i < 10000; i++)
		in += pass(gate, host + i, hello(REMOTE, 30000 + i), START + 100 + i) != GATE_REFUSED;
	assert(in >= 50 && in <= 10 * 5 + 10 * 20 + 128); /* some as strangers, like anybody's */
	assert(pass(gate, 5, hello(REMOTE, 50000), START + 60000));
	gate_free(gate);
}

static void a_copy_of_a_hello_brings_nobody_in(void) {
	struct gate *gate = closed_gate();
	unsigned int host = exhaust(gate, START);
	assert(pass(gate, host, hello(REMOTE, 5000), START));
	assert(!pass(gate, host + 1, hello(REMOTE, 5000), START));
	assert(!pass(gate, host + 2, hello(REMOTE, 4999), START));
	assert(pass(gate, host + 3, hello(OTHER, 17), START)); /* each has its own clock */
	struct sockaddr_storage home = place(host + 4);
	gate_know(gate, &home, 1);
	assert(pass(gate, host + 4, hello(REMOTE, 3), START)); /* where it is known a clock may go back */
	gate_free(gate);
}

static void a_remote_whose_clock_was_ahead_is_believed_once_it_is_right(void) {
	struct gate *gate = closed_gate();
	unsigned int host = exhaust(gate, START);
	const uint64_t hours = 3600000;
	assert(pass(gate, host, hello(REMOTE, START + 2 * hours), START));
	assert(!pass(gate, host + 1, hello(REMOTE, START + 2 * hours), START)); /* a copy */
	assert(!pass(gate, host + 1, hello(REMOTE, START + hours), START));     /* still ahead, and older */
	exhaust(gate, START + 1000);
	assert(pass(gate, 900001, hello(REMOTE, START + 1000), START + 1000));
	assert(!pass(gate, 900000, hello(REMOTE, START + 999), START + 1000));
	gate_free(gate);
}

static void a_forged_hello_passes_from_nowhere(void) {
	struct gate *gate = closed_gate();
	struct sockaddr_storage home = place(1);
	gate_know(gate, &home, 1);
	genuine = false;
	assert(!pass(gate, 1, hello(REMOTE, 5000), START) && !pass(gate, 2, hello(REMOTE, 5000), START));
	assert(asked == 2 && gate_counts(gate).forged == 2);
	genuine = true;
	assert(pass(gate, 2, hello(REMOTE, 4000), START)); /* the forged one's time was not believed */
	gate_free(gate);
}

static enum gate_verdict verdict_on_hello(struct gate *gate, unsigned int host, unsigned char flags, uint64_t time) {
	struct sockaddr_storage from = place(host);
	unsigned char *bytes = (unsigned char *)hello(REMOTE, time);
	bytes[18] = flags;
	return gate_pass(gate, &from, bytes, 200, START);
}

/* The core takes it for a HELLO whatever these flags say: of a head of fragments the MAC is never right, and what may be in
 * extended armor has a share of its own (hello.h). */
static void no_flag_keeps_a_hello_from_being_looked_at(void) {
	struct gate *gate = closed_gate();
	struct sockaddr_storage home = place(1);
	gate_know(gate, &home, 1);
	genuine = false;
	assert(verdict_on_hello(gate, 1, 0x40, 5) == GATE_REFUSED && verdict_on_hello(gate, 1, 0xc0, 5) == GATE_REFUSED);
	assert(asked == 2 && gate_counts(gate).forged == 2);
	assert(verdict_on_hello(gate, 1, 0x80, 5) == GATE_KNOWN && verdict_on_hello(gate, 2, 0x80, 5) == GATE_GUEST);
	assert(asked == 2);
	genuine = true;
	assert(verdict_on_hello(gate, 2, 0, 5) == GATE_KNOWN && verdict_on_hello(gate, 2, 0x80, 5) == GATE_KNOWN);
	gate_free(gate);
}

static void fragments_of_strangers_follow_a_head(void) {
	struct gate *gate = closed_gate();
	assert(!pass(gate, 5, fragment(SELF), START));
	assert(pass(gate, 5, packet(REMOTE, SELF), START) && pass(gate, 5, fragment(SELF), START));
	gate_free(gate);
}

static void an_open_gate_bounds_strangers_alone(void) {
	struct gate *gate = gate_new(SELF, 7);
	struct sockaddr_storage home = place(1);
	gate_know(gate, &home, 1);
	int in = 0;
	for (unsigned int host = 2; host < 100000; host++) in += pass(gate, host, packet(NOBODY, SELF), START + host / 50);
	assert(in >= 200 && in <= 200 + 41 * 20);
	for (int i = 0; i < 100000; i++) assert(pass(gate, 1, packet(NOBODY, OTHER), START));
	assert(gate_counts(gate).foreign == 0 && asked == 0);
	assert(!pass(gate, 1, packet(NOBODY, NOBODY), START) && !pass(gate, 1, packet(SELF, OTHER), START));
	assert(gate_counts(gate).foreign == 2);
	gate_free(gate);
}

/* HELLOs of identities that nobody has seen: each costs the core up to 50 ms, whatever its other flags. */
static void an_open_gate_lets_few_strangers_say_hello(void) {
	const unsigned char flags[] = {0, 2, 0x40, 0x80, 0xc0};
	for (size_t kind = 0; kind < sizeof flags; kind++) {
		struct gate *gate = gate_new(SELF, 7);
		struct sockaddr_storage home = place(1);
		gate_know(gate, &home, 1);
		int in = 0;
		for (int64_t now = START; now < START + 10000; now += 5) {
			unsigned char *bytes = (unsigned char *)hello(NOBODY + (uint64_t)now % 1000, 5000);
			bytes[18] = flags[kind];
			if (flags[kind] == 0x80) bytes[27] = (unsigned char)now; /* in extended armor its verb is anything */
			in += pass(gate, (unsigned int)(now - START) + 2, bytes, now);
			assert(pass(gate, 1, bytes, now)); /* the core limits those of one address */
		}
		assert(in >= 20 && in <= 4 + 20);
		assert(pass(gate, 70000, packet(NOBODY, SELF), START + 10000)); /* other packets have their own share */
		gate_free(gate);
	}
}

/* Ten new members at once, each of which tries again every second. */
static void new_members_at_once_are_in_after_seconds(void) {
	struct gate *gate = gate_new(SELF, 7);
	bool in[10] = {false};
	int seconds = 0, left = 10;
	for (; left; seconds++)
		for (unsigned int i = 0; i < 10; i++) {
			if (in[i] || !pass(gate, 2 + i, hello(NOBODY + i, 5000), START + seconds * 1000 + i)) continue;
			in[i] = true;
			left--;
		}
	assert(seconds <= 5);
	gate_free(gate);
}

static void known_addresses_are_those_told_last_however_many(void) {
	struct gate *gate = closed_gate();
	static struct sockaddr_storage places[5000];
	for (unsigned int i = 0; i < 5000; i++) places[i] = place(2 * i);
	gate_know(gate, places, 5000);
	exhaust(gate, START);
	unsigned int wrong = 0;
	for (unsigned int i = 0; i < 5000; i++) {
		assert(pass(gate, 2 * i, packet(REMOTE, SELF), START));
		wrong += pass(gate, 2 * i + 20001, packet(REMOTE, SELF), START);
	}
	assert(wrong == 0);
	gate_know(gate, places, 1);
	assert(!pass(gate, 4, packet(REMOTE, SELF), START) && pass(gate, 0, packet(REMOTE, SELF), START));
	gate_free(gate);
}

static atomic_bool done;

static void *tell_places(void *context) {
	struct sockaddr_storage places[2] = {place(1), place(2)};
	do { /* once also when this thread has had no CPU until all packets were in */
		gate_know(context, places, 2);
		assert(gate_counts(context).forged == 0);
	} while (!done);
	return NULL;
}

/* What the thread sanitizer looks at: the thread that receives, and one that tells addresses and reads the counts. */
static void addresses_are_told_while_packets_come_in(void) {
	struct gate *gate = closed_gate();
	struct sockaddr_storage one = place(1);
	gate_know(gate, &one, 1);
	exhaust(gate, START);
	pthread_t teller;
	done = false;
	assert(pthread_create(&teller, NULL, tell_places, gate) == 0);
	for (int i = 0; i < 20000; i++) {
		assert(pass(gate, 1, packet(REMOTE, SELF), START));
		assert(!pass(gate, 3, packet(REMOTE, SELF), START));
	}
	done = true;
	pthread_join(teller, NULL);
	assert(pass(gate, 2, packet(REMOTE, SELF), START));
	gate_free(gate);
}

int main(void) {
	only_configured_nodes_pass_a_closed_gate();
	a_flood_of_sources_is_a_few_guests_a_second();
	guests_share_a_number_of_packets();
	a_remote_that_has_moved_proves_it_in_the_midst_of_a_flood();
	a_remote_has_some_addresses_and_not_any_number();
	a_copy_of_a_hello_brings_nobody_in();
	a_remote_whose_clock_was_ahead_is_believed_once_it_is_right();
	a_forged_hello_passes_from_nowhere();
	no_flag_keeps_a_hello_from_being_looked_at();
	fragments_of_strangers_follow_a_head();
	an_open_gate_bounds_strangers_alone();
	an_open_gate_lets_few_strangers_say_hello();
	new_members_at_once_are_in_after_seconds();
	known_addresses_are_those_told_last_however_many();
	addresses_are_told_while_packets_come_in();
	puts("ok");
	return 0;
}
