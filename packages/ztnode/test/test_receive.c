/* The underlay is played by two local sockets: one gets a packet for each that is read, so that it is never empty, and the
 * other has one packet, which must come through. */
#include "../src/receive.c"

#include <assert.h>
#include <stdio.h>

static char played;       /* the underlay */
static int sockets[2][2]; /* where to read, and where to write */
static atomic_bool stop;
static unsigned int flood, others;

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

static void packet_in(void *context, int64_t now, int64_t socket, const struct sockaddr_storage *from,
                      unsigned char *packet, size_t length) {
	(void)context, (void)now, (void)from;
	assert(length == 6 && memcmp(packet, "packet", 6) == 0);
	if (socket == 2) others++, stop = true;
	else flood++, send_to(0);
}

static void after(void *context) { (void)context; }

int main(void) {
	for (int i = 0; i < 2; i++) assert(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets[i]) == 0);
	alarm(20);
	for (int i = 0; i < 4 * BATCH; i++) send_to(0);
	send_to(1);
	assert(receive_packets((struct underlay *)(void *)&played, packet_in, NULL, after, &stop));
	assert(others == 1 && flood >= BATCH);
	puts("ok");
	return 0;
}
