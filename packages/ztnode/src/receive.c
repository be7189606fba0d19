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
		if (!length) ++*packets; /* an empty one takes its turn as well */
		for (size_t at = 0; at < length; at += segment, ++*packets)
			handler(context, now, id, &r->from[i], r->bytes[i] + at, length - at < segment ? length - at : segment);
	}
	return count == BATCH;
}

/* What is waited for: one that wakes, and after it the sockets with how much they had lately. */
struct sources {
	nfds_t count;
	struct pollfd polls[UNDERLAY_SOCKETS + 1];
	int64_t ids[UNDERLAY_SOCKETS + 1];
	unsigned int weights[UNDERLAY_SOCKETS + 1];
};

static unsigned int weight_of(const struct sources *sources, int64_t id) {
	for (nfds_t i = 1; i < sources->count; i++)
		if (sources->ids[i] == id) return sources->weights[i];
	return 0;
}

static void look(struct underlay *underlay, struct sources *sources) {
	int fds[UNDERLAY_SOCKETS];
	int64_t ids[UNDERLAY_SOCKETS];
	struct sources former = *sources;
	sources->count = 1 + underlay_sockets(underlay, fds, ids);
	sources->polls[0] = (struct pollfd){.fd = underlay_wake_fd(underlay), .events = POLLIN};
	for (nfds_t i = 1; i < sources->count; i++) {
		sources->polls[i] = (struct pollfd){.fd = fds[i - 1], .events = POLLIN};
		sources->ids[i] = ids[i - 1];
		sources->weights[i] = weight_of(&former, ids[i - 1]);
	}
}

/* A peer that changes from one path to another changes sockets, too, and what it sends by the new path must not overtake
 * what it has sent by the old one. So the socket that had most lately is read first, which a probe on another does not
 * change. */
static nfds_t first_to_read(const struct sources *sources) {
	nfds_t first = 1;
	for (nfds_t i = 2; i < sources->count; i++)
		if (sources->weights[i] > sources->weights[first]) first = i;
	return first;
}

bool receive_packets(struct underlay *underlay, packet_handler *handler, void *context, void (*after_batch)(void *),
                     const atomic_bool *stop) {
	struct receiver *receiver = malloc(sizeof *receiver);
	if (!receiver) return false;
	struct sources sources = {0};
	look(underlay, &sources);
	while (!*stop) {
		if (underlay_changed(underlay)) look(underlay, &sources);
		if (poll(sources.polls, sources.count, -1) <= 0) continue;
		if (sources.polls[0].revents) {
			uint64_t value;
			(void)!read(sources.polls[0].fd, &value, sizeof value);
		}
		nfds_t first = first_to_read(&sources);
		for (nfds_t turn = 1; turn < sources.count && !underlay_changed(underlay); turn++) {
			nfds_t i = 1 + (first + turn - 2) % (sources.count - 1);
			/* poll looks at one after the other: when it found the new path, the old one may just have had something, too.
			 */
			bool more = sources.polls[i].revents || i == first;
			unsigned int packets = 0;
			while (more && packets < TURN && !*stop && !underlay_changed(underlay)) {
				more = receive_some(receiver, sources.polls[i].fd, sources.ids[i], handler, context, &packets);
				after_batch(NULL);
			}
			sources.weights[i] = sources.weights[i] / 8 * 7 + packets * 64;
		}
	}
	free(receiver);
	return true;
}
