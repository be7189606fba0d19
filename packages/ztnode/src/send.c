#include "send.h"

#include "offloads.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define MESSAGES 64
#define BYTES (256 * 1024)
#define SEGMENTS_MAX 44 /* below the kernel's 64 and below 64 KiB with 1432-byte packets */
#define MESSAGE_MOST 65000
#define PACKET_MOST 16384

/* Neighbours in the buffer to one destination by one socket: one packet, or several of the same size. */
struct message {
	int64_t socket;
	struct sockaddr_storage to;
	size_t offset, length;
	size_t segment; /* bytes of all packets but the last */
	unsigned int packets;
	bool closed; /* its last packet is shorter, so that none may follow */
};
struct gathered {
	struct underlay *underlay;
	unsigned int count;
	size_t used;
	struct message messages[MESSAGES];
	unsigned char bytes[BYTES];
};
static _Thread_local struct gathered *gathered;
static pthread_key_t gathered_key; /* frees it when its thread ends */
static pthread_once_t gathered_once = PTHREAD_ONCE_INIT;

static void make_key(void) { pthread_key_create(&gathered_key, free); }

/* What this thread has gathered; NULL without memory. */
static struct gathered *own_batch(void) {
	if (gathered) return gathered;
	gathered = malloc(sizeof *gathered);
	if (!gathered) return NULL;
	pthread_once(&gathered_once, make_key);
	pthread_setspecific(gathered_key, gathered);
	gathered->count = 0;
	gathered->used = 0;
	return gathered;
}

/* -- sending */

/* Whether the first was taken. */
static bool send_singly(int fd, const struct message *message, const unsigned char *bytes) {
	bool taken = false;
	for (size_t done = 0; done < message->length;) {
		size_t here = message->length - done < message->segment ? message->length - done : message->segment;
		ssize_t sent = sendto(fd, bytes + message->offset + done, here, 0, (const struct sockaddr *)&message->to,
		                      address_size(&message->to));
		if (!done) taken = sent >= 0;
		done += here;
	}
	return taken;
}

/* Whether an error of the kernel says that it takes no segments here. */
static bool is_refusal(int error) {
	return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

/* -1 with errno set. */
static ssize_t send_segments(int fd, struct message *message, unsigned char *bytes) {
	uint16_t segment = (uint16_t)message->segment;
	struct iovec piece = {bytes + message->offset, message->length};
	union {
		char space[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr align;
	} control = {{0}};
	struct msghdr header = {
		.msg_name = &message->to,
		.msg_namelen = address_size(&message->to),
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof control.space,
	};
	struct cmsghdr *item = CMSG_FIRSTHDR(&header);
	item->cmsg_level = IPPROTO_UDP;
	item->cmsg_type = UDP_SEGMENT;
	item->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	memcpy(CMSG_DATA(item), &segment, sizeof segment);
	return sendmsg(fd, &header, 0);
}

static void send_message(struct underlay *underlay, struct binding *binding, struct message *message,
                         unsigned char *bytes) {
	uint16_t segment = (uint16_t)message->segment;
	if (message->packets == 1 || !segments_may_go(&binding->segments, segment, clock_ms())) {
		send_singly(binding->fd, message, bytes);
	} else if (send_segments(binding->fd, message, bytes) >= 0) {
		segments_taken(&binding->segments, segment);
	} else if (is_refusal(errno)) {
		int error = errno;
		/* An address that nothing can be sent to says nothing of segments: peers name such addresses, too. */
		if (!send_singly(binding->fd, message, bytes)) return;
		underlay_count_refusal(underlay);
		if (segments_refused(&binding->segments, segment, clock_ms()))
			say("%s rejects segments (%s); packets are sent one by one until a later attempt succeeds",
			    *binding->device ? binding->device : "an uplink", strerror(error));
	}
}

/* Messages of one packet each to one socket go in one call; returns how many. Without a device a socket is good for one
 * destination: only that was looked at. */
static unsigned int send_plain_run(const struct binding *binding, struct gathered *batch, unsigned int first) {
	struct mmsghdr headers[MESSAGES];
	struct iovec pieces[MESSAGES];
	unsigned int count = 0;
	while (first + count < batch->count) {
		struct message *message = &batch->messages[first + count];
		if (message->packets != 1 || message->socket != batch->messages[first].socket) break;
		if (!*binding->device && !same_endpoint(&message->to, &batch->messages[first].to)) break;
		pieces[count] = (struct iovec){batch->bytes + message->offset, message->length};
		headers[count].msg_hdr = (struct msghdr){
			.msg_name = &message->to,
			.msg_namelen = address_size(&message->to),
			.msg_iov = &pieces[count],
			.msg_iovlen = 1,
		};
		count++;
	}
	for (unsigned int done = 0; done < count;) {
		int sent = sendmmsg(binding->fd, headers + done, count - done, 0);
		done += sent > 0 ? (unsigned int)sent : 1; /* one that cannot be sent is lost, as UDP is */
	}
	return count;
}

void send_flush(void) {
	struct gathered *batch = gathered;
	if (!batch || !batch->count) return;
	underlay_hold(batch->underlay);
	for (unsigned int i = 0; i < batch->count;) {
		struct message *message = &batch->messages[i];
		struct binding *binding = underlay_binding(batch->underlay, message->socket, &message->to);
		if (binding && message->packets == 1) {
			i += send_plain_run(binding, batch, i);
			continue;
		}
		if (binding) send_message(batch->underlay, binding, message, batch->bytes);
		i++;
	}
	underlay_release(batch->underlay);
	batch->count = 0;
	batch->used = 0;
}

/* -- gathering */

/* Whether a packet may go with a message: the same way, no larger than the first, and nothing shorter before it. */
static bool goes_with(const struct message *message, int64_t id, const struct sockaddr_storage *to, size_t length) {
	return !message->closed && message->socket == id && length <= message->segment && message->packets < SEGMENTS_MAX &&
	       message->length + length < MESSAGE_MOST && memcmp(&message->to, to, address_size(to)) == 0;
}

/* Whether a packet can be sent there at all: an address of another family has no port either. */
static bool may_go(const struct sockaddr_storage *to, size_t length) {
	return address_port(to) != 0 && length > 0 && length <= PACKET_MOST;
}

unsigned char *send_place(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to, size_t length) {
	struct gathered *batch = may_go(to, length) ? own_batch() : NULL;
	if (!batch) return NULL;
	batch->underlay = underlay;
	if (batch->used + length > BYTES) send_flush();
	struct message *last = batch->count ? &batch->messages[batch->count - 1] : NULL;
	if (last && underlay_offloads(underlay) & OFFLOAD_UNDERLAY_GSO && goes_with(last, id, to, length)) {
		last->length += length;
		last->packets++;
		last->closed = length < last->segment;
	} else {
		if (batch->count == MESSAGES) send_flush();
		last = &batch->messages[batch->count++];
		memset(&last->to, 0, sizeof last->to);
		memcpy(&last->to, to, address_size(to));
		last->socket = id;
		last->offset = batch->used;
		last->length = last->segment = length;
		last->packets = 1;
		last->closed = false;
	}
	batch->used += length;
	return batch->bytes + batch->used - length;
}

static bool gather(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to, const void *packet,
                   size_t length) {
	unsigned char *place = send_place(underlay, id, to, length);
	if (place) memcpy(place, packet, length);
	return place;
}

bool send_packet(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to, const void *packet,
                 size_t length) {
	if (!may_go(to, length)) return false;
	if (id > 0) return gather(underlay, id, to, packet, length);
	int64_t ids[UNDERLAY_SOCKETS];
	size_t count = underlay_ids(underlay, to, ids);
	bool good = count > 0;
	for (size_t i = 0; i < count; i++) good &= gather(underlay, ids[i], to, packet, length);
	return good;
}
