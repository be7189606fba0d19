/* The underlay is played by two local sockets. */
#include "../src/receive.c"

#include <assert.h>
#include <stdio.h>

static char played;       /* the underlay */
static int sockets[2][2]; /* where to read, and where to write */
static atomic_bool stop;

int underlay_wake_fd(const struct underlay *underlay) {
	(void)underlay;
	return -1; /* is not polled */
}
bool underlay_changed(const struct underlay *underlay) {
	(void)underlay;
	return false;
}
size_t underlay_sockets(struct underlay *underlay, int fds[UNDERLAY_SOCKETS], int64_t ids[UNDERLAY_SOCKETS]) {
	(void)underlay;
	for (int i = 0; i < 2; i++) fds[i] = sockets[i][0], ids[i] = i + 1;
	return 2;
}

static void send_to(int which) { assert(send(sockets[which][1], "packet", 6, 0) == 6); }

/* One socket gets a packet for each that is read, so that it is never empty; the packet of the other must come through. */
static unsigned int flood, others;
static void flooded(void *context, int64_t now, int64_t socket, const struct sockaddr_storage *from, unsigned char *packet,
                    size_t length) {
	(void)context, (void)now, (void)from;
	assert(length == 6 && memcmp(packet, "packet", 6) == 0);
	if (socket == 2) others++, stop = true;
	else flood++, send_to(0);
}

/* A peer changes from the second socket to the first, and back: what it has sent before is received before. */
static unsigned int moves, before, behind;
static void moved(void *context, int64_t now, int64_t socket, const struct sockaddr_storage *from, unsigned char *packet,
                  size_t length) {
	(void)context, (void)now, (void)from, (void)packet, (void)length;
	static int left;
	int which = (int)socket - 1;
	if (before + behind == 0) {
		left = which;
		for (; before < 3 * BATCH; before++) send_to(left);
		for (; behind < BATCH / 2; behind++) send_to(!left);
	} else if (which == left) {
		before--;
	} else {
		assert(before == 0);
		if (--behind > 0) return;
		if (++moves == 2) stop = true;
		else send_to(which);
	}
}

static void after(void *context) { (void)context; }

static void receive(packet_handler *handler) {
	for (int i = 0; i < 2; i++) assert(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets[i]) == 0);
	stop = false;
	send_to(1);
	if (handler == flooded)
		for (int i = 0; i < 4 * BATCH; i++) send_to(0);
	assert(receive_packets((struct underlay *)(void *)&played, handler, NULL, after, &stop));
	for (int i = 0; i < 4; i++) close(sockets[i / 2][i % 2]);
}

int main(void) {
	alarm(20);
	receive(flooded);
	assert(others == 1 && flood >= BATCH);
	receive(moved);
	assert(moves == 2);
	puts("ok");
	return 0;
}
