/* CPU time of one packet of 1432 bytes, in and out, by the core alone and by the shortcut: batches of 44, best of many. */
#include "twins.h"

#include <time.h>

enum { BATCH = 44, ROUNDS = 2000, FRAME = 1432 - AT_PAYLOAD + 14 };

static uint64_t state;
static unsigned char pseudo_random(void) {
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned char)(state >> 56);
}

static int64_t nanoseconds(void) {
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static unsigned char incoming[BATCH][1432], copies[BATCH][1432];

static void in(struct end *end) {
	for (int i = 0; i < BATCH; i++) {
		struct shortcut_frame frame;
		if (!end->shortcut)
			ZT_Node_processWirePacket(end->core, NULL, now, 1, &peer.address, copies[i], sizeof copies[i], NULL);
		else if (shortcut_in(1, &peer.address, copies[i], sizeof copies[i], &frame))
			deliver(end, NETWORK(0), 1, 2, 3, frame.bytes + 14, frame.length - 14);
		else shortcut_ask_in(end->core, now, 1, &peer.address, copies[i], sizeof copies[i]);
	}
	shortcut_forget();
}

static void out(struct end *end) {
	static unsigned char frame[FRAME];
	put_mac(frame, peer.places[0].mac), put_mac(frame + 6, alone.places[0].mac);
	frame[12] = 8;
	for (int i = 0; i < BATCH; i++) send_frame(end, NETWORK(0), frame, sizeof frame);
	shortcut_forget();
}

static double best(struct end *end, void (*work)(struct end *)) {
	int64_t least = INT64_MAX;
	for (int round = 0; round < ROUNDS; round++) {
		memcpy(copies, incoming, sizeof copies);
		int64_t begin = nanoseconds();
		work(end);
		int64_t took = nanoseconds() - begin;
		if (took < least) least = took;
		MUST(end->got <= BATCH && end->sent <= BATCH);
		empty(end);
	}
	return (double)least / BATCH;
}

int main(void) {
	next = pseudo_random;
	twins_begin();
	static unsigned char frame[FRAME];
	put_mac(frame, alone.places[0].mac), put_mac(frame + 6, peer.places[0].mac);
	frame[12] = 8;
	pass(10);
	for (int i = 0; i < BATCH; i++) {
		peer.sent = 0;
		send_frame(&peer, NETWORK(0), frame, sizeof frame);
		MUST(peer.sent == 1 && peer.outbox[0].length == sizeof incoming[0]);
		memcpy(incoming[i], peer.outbox[0].bytes, sizeof incoming[0]);
	}
	peer.sent = 0;
	only_count = true;
	printf("ns of a packet (AES by %s)   in   out\n", armor_name());
	printf("the core                   %5.0f %5.0f\n", best(&alone, in), best(&alone, out));
	printf("shortcut                   %5.0f %5.0f\n", best(&behind, in), best(&behind, out));
	return 0;
}
