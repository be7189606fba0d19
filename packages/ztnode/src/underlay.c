/* UDP on every address of the underlay, in batches, with segmentation offload where the kernel has it. */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define MAX_SOCKETS 64
#define SOCKET_BUFFER (4 << 20)
#define RECEIVE_BATCH 16
#define RECEIVE_SIZE 65536
#define SEND_MESSAGES 64
#define SEND_BYTES (256 * 1024)
#define SEGMENTS_MAX 44     /* below the kernel's 64 and below 64 KiB with 1432-byte packets */
#define PLAIN_MS 1000       /* without segments for so long after the kernel has refused them, doubled each time … */
#define PLAIN_MOST_MS 64000 /* … up to this */

/* Since Linux 3.15; IPV6_PMTUDISC_OMIT has the same number. */
#ifndef IP_PMTUDISC_OMIT
#define IP_PMTUDISC_OMIT 5
#endif

struct binding {
	int fd;
	int64_t id; /* never used twice, so that a path's socket cannot turn into another */
	char device[IFNAMSIZ];
	struct sockaddr_storage address;
	bool keep;
	int64_t plain_until; /* monotonic ms: no segments before; accessed atomically, as the next two */
	int64_t plain_for;   /* length of the last such time, 0: segments go */
	uint16_t plain_size; /* the least segment that was refused: smaller ones may go, and prove nothing for it */
};

struct underlay {
	unsigned int port;
	int wake;
	pthread_rwlock_t lock;
	struct binding bindings[MAX_SOCKETS];
	size_t count;
	int *retired; /* sockets that the receiving thread closes: it may be about to read them */
	size_t retired_count;
	int64_t next_id;
	atomic_bool changed;
	uint64_t refused; /* messages with segments that the kernel refused; accessed atomically */
};

/* Packets that a thread has gathered: neighbours in the buffer to one destination are one message. */
struct message {
	int64_t socket;
	struct sockaddr_storage to;
	size_t offset, length;
	size_t segment; /* bytes of all packets but the last */
	unsigned int packets;
	bool closed;
};
struct gathered {
	struct underlay *underlay;
	unsigned int count;
	size_t used;
	struct message messages[SEND_MESSAGES];
	unsigned char bytes[SEND_BYTES];
};
static __thread struct gathered *gathered;
static pthread_key_t gathered_key; /* frees it when its thread ends */
static pthread_once_t gathered_once = PTHREAD_ONCE_INIT;

static void make_key(void) { pthread_key_create(&gathered_key, free); }

struct underlay *underlay_open(unsigned int port) {
	struct underlay *underlay = calloc(1, sizeof *underlay);
	underlay->port = port;
	underlay->next_id = 1;
	underlay->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_rwlock_init(&underlay->lock, NULL);
	return underlay;
}

static socklen_t address_size(const struct sockaddr_storage *address) {
	return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* The MTU of the device counts alone. What ICMP says of smaller ones on the way ("fragmentation needed", "packet too big")
 * anybody can send in the name of a router, and the kernel believes it for ten minutes: it would cut every packet in
 * pieces and refuse segments. Without DF, routers of IPv4 still cut what is too big for them; those of IPv6 never do. */
static void ignore_path_mtu(int fd, int family) {
	int omit = IP_PMTUDISC_OMIT;
	if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &omit, sizeof omit);
	else setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &omit, sizeof omit);
}

static int open_socket(const struct binding *binding) {
	int fd = socket(binding->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) return -1;
	int on = 1, size = SOCKET_BUFFER;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	if (binding->address.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	ignore_path_mtu(fd, binding->address.ss_family);
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on); /* without it packets just come one by one */
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, binding->device, (socklen_t)strlen(binding->device)) < 0 ||
	    bind(fd, (const struct sockaddr *)&binding->address, address_size(&binding->address)) < 0) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static bool wanted(const struct settings *settings, const struct ifaddrs *entry, const struct sockaddr_storage *address) {
	if (!(entry->ifa_flags & IFF_UP) || entry->ifa_flags & IFF_LOOPBACK) return false;
	if (interface_excluded(settings, entry->ifa_name) || address_excluded(settings, address)) return false;
	if (address->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr))
		return false;
	for (size_t i = 0; i < settings->bind_count; i++)
		if (same_address(&settings->binds[i], address)) return true;
	return settings->bind_count == 0;
}

/* With the lock held for writing. */
static bool bind_one(struct underlay *underlay, const char *device, const struct sockaddr_storage *address, bool *taken) {
	for (size_t i = 0; i < underlay->count; i++) {
		struct binding *known = &underlay->bindings[i];
		if (same_address(&known->address, address) && strcmp(known->device, device) == 0) {
			known->keep = true;
			return false;
		}
	}
	if (underlay->count == MAX_SOCKETS) return false;
	struct binding *fresh = &underlay->bindings[underlay->count];
	memset(fresh, 0, sizeof *fresh);
	strncpy(fresh->device, device, IFNAMSIZ - 1);
	fresh->address = *address;
	fresh->keep = true;
	fresh->fd = open_socket(fresh);
	if (fresh->fd < 0) {
		if (errno == EADDRINUSE) *taken = true;
		return false; /* a tentative or vanished address: the next address event tries again */
	}
	fresh->id = underlay->next_id++;
	underlay->count++;
	return true;
}

/* With the lock held for writing. A number that was closed here would soon be that of another file. */
static void retire(struct underlay *underlay, int fd) {
	int *more = realloc(underlay->retired, (underlay->retired_count + 1) * sizeof *more);
	if (!more) return; /* it stays open, and is read no more */
	underlay->retired = more;
	more[underlay->retired_count++] = fd;
}

static void close_retired(struct underlay *underlay) {
	while (underlay->retired_count) close(underlay->retired[--underlay->retired_count]);
	free(underlay->retired);
	underlay->retired = NULL;
}

bool underlay_rebind(struct underlay *underlay, const struct settings *settings, bool *taken) {
	struct ifaddrs *all;
	if (getifaddrs(&all) < 0) return false;
	bool changed = false;
	*taken = false;
	pthread_rwlock_wrlock(&underlay->lock);
	for (size_t i = 0; i < underlay->count; i++) underlay->bindings[i].keep = false;
	for (struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
		if (!entry->ifa_addr || (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)) continue;
		struct sockaddr_storage address = {0};
		memcpy(&address, entry->ifa_addr,
		       entry->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
		if (!wanted(settings, entry, &address)) continue;
		if (address.ss_family == AF_INET) ((struct sockaddr_in *)&address)->sin_port = htons((uint16_t)underlay->port);
		else ((struct sockaddr_in6 *)&address)->sin6_port = htons((uint16_t)underlay->port);
		changed |= bind_one(underlay, entry->ifa_name, &address, taken);
	}
	for (size_t i = 0; i < underlay->count;) {
		if (underlay->bindings[i].keep) {
			i++;
			continue;
		}
		retire(underlay, underlay->bindings[i].fd);
		underlay->bindings[i] = underlay->bindings[--underlay->count];
		changed = true;
	}
	pthread_rwlock_unlock(&underlay->lock);
	freeifaddrs(all);
	if (changed) {
		underlay->changed = true;
		underlay_wake(underlay);
	}
	return changed;
}

size_t underlay_addresses(struct underlay *underlay, struct sockaddr_storage *addresses, size_t most) {
	pthread_rwlock_rdlock(&underlay->lock);
	size_t count = underlay->count < most ? underlay->count : most;
	for (size_t i = 0; i < count; i++) addresses[i] = underlay->bindings[i].address;
	pthread_rwlock_unlock(&underlay->lock);
	return count;
}

/* -- sending */

static struct binding *binding_of(struct underlay *underlay, int64_t id) {
	for (size_t i = 0; i < underlay->count; i++)
		if (underlay->bindings[i].id == id) return &underlay->bindings[i];
	return NULL;
}

/* Where a packet leaves: by its socket, or by another of the family where that is closed because its address has gone. */
static struct binding *binding_for(struct underlay *underlay, const struct message *message) {
	struct binding *binding = binding_of(underlay, message->socket);
	for (size_t i = 0; !binding && i < underlay->count; i++)
		if (underlay->bindings[i].address.ss_family == message->to.ss_family) binding = &underlay->bindings[i];
	return binding;
}

bool underlay_has(struct underlay *underlay, int64_t socket) {
	pthread_rwlock_rdlock(&underlay->lock);
	bool found = binding_of(underlay, socket) != NULL;
	pthread_rwlock_unlock(&underlay->lock);
	return found;
}

static void send_singly(int fd, const struct message *message, const unsigned char *bytes) {
	for (size_t done = 0; done < message->length;) {
		size_t here = message->length - done < message->segment ? message->length - done : message->segment;
		sendto(fd, bytes + message->offset + done, here, 0, (const struct sockaddr *)&message->to,
		       address_size(&message->to));
		done += here;
	}
}

/* The kernel takes no segments, for the MTU of the device or what else is on it; that may pass. Several threads may come
 * here at once, and then the pause is that of one of them. */
static void rest_segments(struct underlay *underlay, struct binding *binding, uint16_t segment, int error) {
	int64_t last = __atomic_load_n(&binding->plain_for, __ATOMIC_RELAXED), pause = last ? 2 * last : PLAIN_MS;
	if (pause > PLAIN_MOST_MS) pause = PLAIN_MOST_MS;
	if (!last || segment < __atomic_load_n(&binding->plain_size, __ATOMIC_RELAXED))
		__atomic_store_n(&binding->plain_size, segment, __ATOMIC_RELAXED);
	__atomic_store_n(&binding->plain_for, pause, __ATOMIC_RELAXED);
	__atomic_store_n(&binding->plain_until, clock_ms() + pause, __ATOMIC_RELAXED);
	__atomic_add_fetch(&underlay->refused, 1, __ATOMIC_RELAXED);
	if (!last)
		say("%s takes no segments (%s): packets leave one by one, and it is tried again", binding->device, strerror(error));
}

static bool was_refused(struct binding *binding, uint16_t segment) {
	return __atomic_load_n(&binding->plain_for, __ATOMIC_RELAXED) &&
	       segment >= __atomic_load_n(&binding->plain_size, __ATOMIC_RELAXED);
}

static bool takes_segments(struct binding *binding, uint16_t segment) {
	return !was_refused(binding, segment) || clock_ms() >= __atomic_load_n(&binding->plain_until, __ATOMIC_RELAXED);
}

uint64_t underlay_refused(struct underlay *underlay) { return __atomic_load_n(&underlay->refused, __ATOMIC_RELAXED); }

static void send_message(struct underlay *underlay, struct binding *binding, struct message *message,
                         unsigned char *bytes) {
	int fd = binding->fd;
	uint16_t segment = (uint16_t)message->segment;
	if (message->packets == 1 || !takes_segments(binding, segment)) {
		send_singly(fd, message, bytes);
		return;
	}
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
	if (sendmsg(fd, &header, 0) >= 0) {
		if (was_refused(binding, segment)) __atomic_store_n(&binding->plain_for, 0, __ATOMIC_RELAXED);
	} else if (errno == EINVAL || errno == EIO || errno == EMSGSIZE || errno == EOPNOTSUPP || errno == ENOPROTOOPT) {
		rest_segments(underlay, binding, segment, errno);
		send_singly(fd, message, bytes);
	}
}

/* Messages without segments to one socket go in one call. */
static unsigned int send_plain_run(int fd, struct gathered *batch, unsigned int first) {
	struct mmsghdr headers[SEND_MESSAGES];
	struct iovec pieces[SEND_MESSAGES];
	unsigned int count = 0;
	while (first + count < batch->count) {
		struct message *message = &batch->messages[first + count];
		if (message->packets != 1 || message->socket != batch->messages[first].socket) break;
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
		int sent = sendmmsg(fd, headers + done, count - done, 0);
		done += sent > 0 ? (unsigned int)sent : 1; /* one that cannot be sent is lost, as UDP is */
	}
	return count;
}

static void flush_underlay(void) {
	struct gathered *batch = gathered;
	if (!batch || !batch->count) return;
	pthread_rwlock_rdlock(&batch->underlay->lock);
	for (unsigned int i = 0; i < batch->count;) {
		struct binding *binding = binding_for(batch->underlay, &batch->messages[i]);
		if (binding && batch->messages[i].packets == 1) {
			i += send_plain_run(binding->fd, batch, i);
			continue;
		}
		if (binding) send_message(batch->underlay, binding, &batch->messages[i], batch->bytes);
		i++;
	}
	pthread_rwlock_unlock(&batch->underlay->lock);
	batch->count = 0;
	batch->used = 0;
}

static void gather(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to, const void *packet,
                   size_t length) {
	if (!gathered) {
		gathered = malloc(sizeof *gathered);
		if (!gathered) return;
		pthread_once(&gathered_once, make_key);
		pthread_setspecific(gathered_key, gathered);
		gathered->count = 0;
		gathered->used = 0;
	}
	struct gathered *batch = gathered;
	batch->underlay = underlay;
	if (batch->used + length > SEND_BYTES) flush_underlay();
	struct message *last = batch->count ? &batch->messages[batch->count - 1] : NULL;
	if (last && !last->closed && last->socket == id && length <= last->segment && last->packets < SEGMENTS_MAX &&
	    last->length + length < 65000 && memcmp(&last->to, to, address_size(to)) == 0) {
		last->length += length;
		last->packets++;
		last->closed = length < last->segment;
	} else {
		if (batch->count == SEND_MESSAGES) flush_underlay();
		last = &batch->messages[batch->count++];
		memset(&last->to, 0, sizeof last->to);
		memcpy(&last->to, to, address_size(to));
		last->socket = id;
		last->offset = batch->used;
		last->length = last->segment = length;
		last->packets = 1;
		last->closed = false;
	}
	memcpy(batch->bytes + batch->used, packet, length);
	batch->used += length;
}

bool underlay_send(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to, const void *packet,
                   size_t length) {
	if ((to->ss_family != AF_INET && to->ss_family != AF_INET6) || length == 0 || length > 16384) return false;
	if (id > 0) {
		gather(underlay, id, to, packet, length);
		return true;
	}
	int64_t ids[MAX_SOCKETS];
	size_t count = 0;
	pthread_rwlock_rdlock(&underlay->lock);
	for (size_t i = 0; i < underlay->count; i++)
		if (underlay->bindings[i].address.ss_family == to->ss_family) ids[count++] = underlay->bindings[i].id;
	pthread_rwlock_unlock(&underlay->lock);
	for (size_t i = 0; i < count; i++) gather(underlay, ids[i], to, packet, length);
	return count > 0;
}

void io_flush(void *unused) {
	(void)unused;
	tap_flush();
	flush_underlay();
}

/* -- receiving */

struct receiver {
	struct mmsghdr headers[RECEIVE_BATCH];
	struct iovec pieces[RECEIVE_BATCH];
	struct sockaddr_storage from[RECEIVE_BATCH];
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control[RECEIVE_BATCH];
	unsigned char bytes[RECEIVE_BATCH][RECEIVE_SIZE];
};

static size_t segment_of(struct msghdr *header, size_t whole) {
	for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item; item = CMSG_NXTHDR(header, item)) {
		int size;
		if (item->cmsg_level != IPPROTO_UDP || item->cmsg_type != UDP_GRO) continue;
		memcpy(&size, CMSG_DATA(item), sizeof size);
		if (size > 0) return (size_t)size;
	}
	return whole ? whole : 1;
}

static bool receive_some(struct receiver *r, int fd, int64_t id, packet_handler *handler, void *context) {
	for (int i = 0; i < RECEIVE_BATCH; i++) {
		r->pieces[i] = (struct iovec){r->bytes[i], RECEIVE_SIZE};
		r->headers[i].msg_hdr = (struct msghdr){
			.msg_name = &r->from[i],
			.msg_namelen = sizeof r->from[i],
			.msg_iov = &r->pieces[i],
			.msg_iovlen = 1,
			.msg_control = r->control[i].space,
			.msg_controllen = sizeof r->control[i].space,
		};
	}
	int count = recvmmsg(fd, r->headers, RECEIVE_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < count; i++) {
		size_t length = r->headers[i].msg_len, segment = segment_of(&r->headers[i].msg_hdr, length);
		for (size_t at = 0; at < length; at += segment)
			handler(context, id, &r->from[i], r->bytes[i] + at, length - at < segment ? length - at : segment);
	}
	return count == RECEIVE_BATCH;
}

void underlay_receive(struct underlay *underlay, packet_handler *handler, void *context, void (*after_batch)(void *),
                      const atomic_bool *stop) {
	struct receiver *receiver = malloc(sizeof *receiver);
	struct pollfd polls[MAX_SOCKETS + 1];
	int64_t ids[MAX_SOCKETS + 1] = {0};
	nfds_t count = 0;
	underlay->changed = true;
	while (!*stop) {
		if (underlay->changed) {
			underlay->changed = false;
			pthread_rwlock_wrlock(&underlay->lock);
			close_retired(underlay);
			count = 0;
			polls[count++] = (struct pollfd){.fd = underlay->wake, .events = POLLIN};
			for (size_t i = 0; i < underlay->count; i++) {
				ids[count] = underlay->bindings[i].id;
				polls[count++] = (struct pollfd){.fd = underlay->bindings[i].fd, .events = POLLIN};
			}
			pthread_rwlock_unlock(&underlay->lock);
		}
		if (poll(polls, count, -1) <= 0) continue;
		if (polls[0].revents) {
			uint64_t value;
			(void)!read(underlay->wake, &value, sizeof value);
		}
		for (nfds_t i = 1; i < count && !underlay->changed; i++) {
			if (!polls[i].revents) continue;
			bool more;
			do {
				more = receive_some(receiver, polls[i].fd, ids[i], handler, context);
				after_batch(NULL);
			} while (more && !*stop && !underlay->changed);
		}
	}
	free(receiver);
}

void underlay_wake(struct underlay *underlay) {
	uint64_t one = 1;
	(void)!write(underlay->wake, &one, sizeof one);
}

void underlay_close(struct underlay *underlay) {
	close_retired(underlay);
	for (size_t i = 0; i < underlay->count; i++) close(underlay->bindings[i].fd);
	close(underlay->wake);
	pthread_rwlock_destroy(&underlay->lock);
	free(underlay);
}
