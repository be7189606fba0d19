/* Behind the shortcut everything is as it is with the core alone (twins.h), and most of the traffic takes it. */
#include "twins.h"

enum { BATCHES = 2000 };

static uint64_t state;
static unsigned char pseudo_random(void) {
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned char)(state >> 56);
}

/* Which of the packets that B has sent is asked for. */
static bool is_asked(const struct letter *letter) {
	unsigned long before = asked;
	arrive(letter, 0);
	return asked > before;
}

/* A batch in which the core is asked once, and again after what may change its mind: `how`, or to its end (`for_good`). */
static void scene(void (*how)(void), bool for_good) {
	state = 1;
	pass(5);
	held = 0;
	for (int i = 0; i < 4; i++) peer_sends(0, alone.places[0].mac, peer.places[0].mac);
	MUST(held == 4 && is_asked(&hand[0]) && !is_asked(&hand[1]));
	if (how) how();
	MUST(is_asked(&hand[2]) == (how != NULL) && is_asked(&hand[3]) == for_good);
	pass(5);
	MUST(is_asked(&hand[3]));
}

/* The same on the way out; a longer frame is asked for, too. */
static void scene_out(void (*how)(void)) {
	unsigned char frame[200] = {0};
	put_mac(frame, peer.places[0].mac), put_mac(frame + 6, alone.places[0].mac);
	frame[12] = 8;
	pass(5);
	const size_t lengths[] = {100, 90, 101, 101, 15, 101};
	const bool expected[] = {true, false, true, false, how != NULL, how != NULL};
	for (int i = 0; i < 6; i++) {
		unsigned long before = asked_out;
		if (i == 4 && how) how();
		leave_by(0, frame, lengths[i]);
		MUST((asked_out > before) == expected[i]);
	}
}

static void others_change(void) { shortcut_change_begin(), shortcut_change_end(); }

/* A frame of 100 bytes without content. */
static void typed_frame(unsigned char frame[100], const struct end *to, const struct end *from, unsigned int which,
                        const unsigned char type[2]) {
	memset(frame, 0, 100);
	put_mac(frame, to->places[which].mac), put_mac(frame + 6, from->places[which].mac);
	memcpy(frame + 12, type, 2);
}

/* Whether a frame of a type is asked for ('A': after a change), in and out: in a network whose rules look at types, the
 * first of each type, and always one that they drop; where they look further, every one. */
static void types_in(unsigned int which, const unsigned char (*types)[2], const char *expected) {
	pass(5);
	for (size_t i = 0; expected[i]; i++) {
		unsigned char frame[100];
		typed_frame(frame, &alone, &peer, which, types[i]);
		held = 0;
		send_frame(&peer, NETWORK(which), frame, sizeof frame);
		take_from_peer();
		if (expected[i] == 'A') others_change();
		MUST(held == 1 && is_asked(&hand[0]) == (expected[i] != '-'));
	}
}

static void types_out(unsigned int which, const unsigned char (*types)[2], const char *expected) {
	pass(5);
	for (size_t i = 0; expected[i]; i++) {
		unsigned char frame[100];
		typed_frame(frame, &peer, &alone, which, types[i]);
		if (expected[i] == 'A') others_change();
		unsigned long before = asked_out;
		leave_by(which, frame, sizeof frame);
		MUST((asked_out > before) == (expected[i] != '-'));
	}
}

static void by_type(void) {
	static const unsigned char four[2] = {8, 0}, six[2] = {0x86, 0xdd}, arp[2] = {8, 6}, other[2] = {0x88, 0xb5};
	unsigned char sent[12][2];
	const unsigned char *const order[] = {four, four, six, six, four, arp, six, arp, four, other, other, six};
	for (size_t i = 0; i < 12; i++) memcpy(sent[i], order[i], 2);
	types_in(6, sent, "a-a--a---aa-"), types_out(6, sent, "a-a--a---aa-");
	types_in(0, sent, "a-----------"), types_out(0, sent, "a-----------");
	types_in(7, sent, "aaaaaaaaaaaa"), types_out(7, sent, "aaaaaaaaaaaa");
	const unsigned char pair[][2] = {{8, 0}, {0x86, 0xdd}, {8, 0}, {0x86, 0xdd}, {8, 0}};
	for (int i = 0; i < 4; i++) types_in(6, pair, "aaAa-"), types_out(6, pair, "aaAa-"), types_in(6, pair, "a");
}

/* Echo requests of B, which are answered: with the cipher of today, and with the old one. */
static void echo_with(const struct siv_key *with) {
	static struct core_packet packet;
	packet.length = 40;
	memset(packet.bytes, 7, packet.length);
	put_node(packet.bytes + AT_DESTINATION, alone.node);
	put_node(packet.bytes + AT_SOURCE, peer.node);
	packet.bytes[AT_FLAGS] = 0;
	packet.bytes[AT_VERB] = 8;
	armor_seal(&packet, old_key, true, with);
	feed_both(1, &peer.address, packet.bytes, packet.length);
	post();
}
static void echo(void) { echo_with(keys); }
static void old_echo(void) { echo_with(NULL); }

static void fragment(void) {
	unsigned char bytes[30] = {0};
	put_node(bytes + AT_DESTINATION, alone.node);
	bytes[AT_SOURCE] = 0xff, bytes[14] = 0x21;
	feed_both(1, &peer.address, bytes, sizeof bytes);
}

static void background_task(void) {
	alone.deadline = behind.deadline = 0;
	background(&alone), background(&behind);
	post();
}

static void joined_again(void) {
	leave(&alone, 0), leave(&behind, 0);
	join(&alone, 0), join(&behind, 0);
}

static void batch_ends(void) { shortcut_forget(); }

static void written(void) { shortcut_network_written(NETWORK(0), configs[0][0], config_sizes[0][0]); }

int main(int count, char **arguments) {
	if (!armor_own()) {
		puts("no AES instructions: the core works alone");
		return shortcut_enabled();
	}
	next = pseudo_random;
	twins_begin();
	void (*const scenes[])(void) = {NULL,         echo,       old_echo, fragment,     background_task,
	                                joined_again, batch_ends, written,  others_change};
	for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
		batch_number = (long)i;
		scene(scenes[i], scenes[i] == echo);
		scene_out(scenes[i]);
	}
	by_type();
	unsigned long batches = count > 1 ? strtoul(arguments[1], NULL, 10) : BATCHES;
	for (unsigned long i = 0; i < batches; i++) {
		state = i;
		twins_batch();
		if (i % 16 == 15) twins_restore();
	}
	printf("core_shortcut: %lu packets and %lu frames took it, the core was asked for %lu packets\n", by_shortcut_in,
	       by_shortcut_out, asked);
	fflush(stdout);
	MUST(by_shortcut_in > batches && by_shortcut_out > batches);
	return 0;
}
