/* The underlay is played by two local sockets. */
#include <poll.h>

static int looked(struct pollfd *polls, nfds_t count, int timeout);
#define poll looked
#include "../src/receive.c"
#undef poll

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

/* A peer changes from the second socket to the first, and back: what it has sent before is received before. A probe comes
 * by the new path first, and poll does not see what waits on the old one. */
#define BULK (8 * BATCH) /* much more than the other socket has had at the change before */
static unsigned int moves, bulk, before, behind;
static int old = 1;
static void moved(void *context, int64_t now, int64_t socket, const struct sockaddr_storage *from, unsigned char *packet,
                  size_t length) {
	(void)context, (void)now, (void)from, (void)packet, (void)length;
	int which = (int)socket - 1;
	if (bulk < BULK) {
		assert(which == old);
		if (++bulk == BULK) send_to(!old);
	} else if (!behind) {
		assert(which != old);
		for (; before < 3 * BATCH; before++) send_to(old);
		for (; behind < BATCH / 2; behind++) send_to(!old);
	} else if (which == old) {
		before--;
	} else {
		assert(before == 0);
		if (--behind > 0) return;
		if (++moves == 2) stop = true;
		old = which;
		for (bulk = 0; bulk < BULK; bulk++) send_to(old);
		bulk = 0;
	}
}

static int looked(struct pollfd *polls, nfds_t count, int timeout) {
	int found = poll(polls, count, timeout);
	if (before && behind) polls[1 + old].revents = 0;
	return found;
}

static void after(void *context) { (void)context; }

static void receive(packet_handler *handler) {
	for (int i = 0; i < 2; i++) assert(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets[i]) == 0);
	stop = false;
	for (int i = 0; i < (handler == moved ? BULK : 1); i++) send_to(1);
	for (int i = 0; i < (handler == moved ? 0 : 4 * BATCH); i++) send_to(0);
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
