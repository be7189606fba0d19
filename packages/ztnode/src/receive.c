#include "receive.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define BATCH 16
#define TURN 2048            /* packets of one socket, or a batch more, before the next has its turn */
#define SIZE ((size_t)65536) /* of each of them: what the kernel has joined is no longer */

struct receiver {
	struct mmsghdr headers[BATCH];
	struct iovec pieces[BATCH];
	struct sockaddr_storage from[BATCH];
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control[BATCH];
	unsigned char bytes[BATCH][SIZE];
};

/* Bytes of each packet but the last of a message. */
static size_t segment_of(struct msghdr *header, size_t whole) {
	for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item; item = CMSG_NXTHDR(header, item)) {
		int size;
		if (item->cmsg_level != IPPROTO_UDP || item->cmsg_type != UDP_GRO) continue;
		memcpy(&size, CMSG_DATA(item), sizeof size);
		if (size > 0) return (size_t)size;
	}
	return whole ? whole : 1;
}

/* True when there may be more; counts the packets. */
static bool receive_some(struct receiver *r, int fd, int64_t id, packet_handler *handler, void *context,
                         unsigned int *packets) {
	for (int i = 0; i < BATCH; i++) {
		r->pieces[i] = (struct iovec){r->bytes[i], SIZE};
		r->headers[i].msg_hdr = (struct msghdr){
			.msg_name = &r->from[i],
			.msg_namelen = sizeof r->from[i],
			.msg_iov = &r->pieces[i],
			.msg_iovlen = 1,
			.msg_control = r->control[i].space,
			.msg_controllen = sizeof r->control[i].space,
		};
	}
	int count = recvmmsg(fd, r->headers, BATCH, MSG_DONTWAIT, NULL);
	int64_t now = count > 0 ? now_ms() : 0;
	for (int i = 0; i < count; i++) {
		size_t length = r->headers[i].msg_len, segment = segment_of(&r->headers[i].msg_hdr, length);
		for (size_t at = 0; at < length; at += segment, ++*packets)
			handler(context, now, id, &r->from[i], r->bytes[i] + at, length - at < segment ? length - at : segment);
	}
	return count == BATCH;
}

/* The sockets to wait for, after the one that wakes; returns how many that makes. */
static nfds_t look(struct underlay *underlay, struct pollfd polls[UNDERLAY_SOCKETS + 1], int64_t ids[UNDERLAY_SOCKETS]) {
	int fds[UNDERLAY_SOCKETS];
	size_t count = underlay_sockets(underlay, fds, ids);
	polls[0] = (struct pollfd){.fd = underlay_wake_fd(underlay), .events = POLLIN};
	for (size_t i = 0; i < count; i++) polls[i + 1] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return count + 1;
}

/* A peer that changes from one path to another changes sockets, too. What came before waits in the socket that was read
 * last, so this one is the first again; otherwise the packets of the new path would overtake those of the old. */
static nfds_t first_to_read(const int64_t ids[UNDERLAY_SOCKETS], nfds_t count, int64_t last) {
	for (nfds_t i = 1; i < count; i++)
		if (ids[i - 1] == last) return i;
	return 1;
}

bool receive_packets(struct underlay *underlay, packet_handler *handler, void *context, void (*after_batch)(void *),
                     const atomic_bool *stop) {
	struct receiver *receiver = malloc(sizeof *receiver);
	if (!receiver) return false;
	struct pollfd polls[UNDERLAY_SOCKETS + 1];
	int64_t ids[UNDERLAY_SOCKETS], last = 0;
	nfds_t count = look(underlay, polls, ids);
	while (!*stop) {
		if (underlay_changed(underlay)) count = look(underlay, polls, ids);
		if (poll(polls, count, -1) <= 0) continue;
		if (polls[0].revents) {
			uint64_t value;
			(void)!read(polls[0].fd, &value, sizeof value);
		}
		nfds_t first = first_to_read(ids, count, last);
		for (nfds_t turn = 1; turn < count && !underlay_changed(underlay); turn++) {
			nfds_t i = 1 + (first + turn - 2) % (count - 1);
			if (!polls[i].revents) continue;
			bool more = true;
			unsigned int packets = 0;
			while (more && packets < TURN && !*stop && !underlay_changed(underlay)) {
				more = receive_some(receiver, polls[i].fd, ids[i - 1], handler, context, &packets);
				after_batch(NULL);
			}
			if (packets) last = ids[i - 1];
		}
	}
	free(receiver);
	return true;
}
