#include "tap.h"

#include "offload.h"
#include "offloads.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

/* Since Linux 6.2, and only both together. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

#define TSO (TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)
#define USO (TUN_F_USO4 | TUN_F_USO6)
#define READ_BATCH 32
#define QUEUE_LENGTH 1000

struct tap {
	int fd, wake, control;
	char name[IFNAMSIZ];
	unsigned int offloads;  /* bits of enum offloads: those that it has */
	atomic_uint references; /* the network's, and one of each thread that gathers frames for it */
	pthread_mutex_t lock;   /* held over a write, so that the device is not closed in the middle of it */
	bool closed;
};

/* What a thread that has called tap_gather_here has gathered, and for which TAP. */
static _Thread_local struct joiner *joiner;
static _Thread_local struct tap *joining;

static bool request(struct tap *tap, unsigned long number, struct ifreq *what) {
	memcpy(what->ifr_name, tap->name, IFNAMSIZ);
	return ioctl(tap->control, number, what) == 0;
}

bool tap_set_mtu(struct tap *tap, unsigned int mtu) {
	struct ifreq what = {.ifr_mtu = (int)mtu};
	return request(tap, SIOCSIFMTU, &what);
}

/* What the kernel hands over in super-packets, and what is joined for it. A kernel refuses a set of which it does not know
 * all; frames then come one by one with their checksum done. What is written may be joined TCP on any kernel. */
static void set_offloads(struct tap *tap, unsigned int off) {
	static const unsigned int sets[] = {TUN_F_CSUM | TSO | USO, TUN_F_CSUM | TSO};
	unsigned int taken = 0;
	for (size_t i = 0; i < sizeof sets / sizeof *sets && !taken; i++)
		if (ioctl(tap->fd, TUNSETOFFLOAD, sets[i]) == 0) taken = sets[i];
	tap->offloads = OFFLOAD_TCP_GRO;
	if (taken & TUN_F_TSO4) tap->offloads |= OFFLOAD_TSO;
	if (taken & TUN_F_USO4) tap->offloads |= OFFLOADS_UDP;
	tap->offloads &= ~off;
	unsigned int wanted = taken & TUN_F_CSUM;
	if (tap->offloads & OFFLOAD_TSO) wanted |= TSO;
	if (tap->offloads & OFFLOAD_USO) wanted |= USO;
	if (wanted == taken) return;
	if (ioctl(tap->fd, TUNSETOFFLOAD, wanted) < 0) say("%s keeps its offloads: %s", tap->name, strerror(errno));
}

static bool attach(struct tap *tap, const char *name, unsigned int offloads_off) {
	struct ifreq what = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	char taken[64 + IFNAMSIZ];
	snprintf(taken, sizeof taken, "/sys/class/net/%s", name);
	bool free_name = *name && access(taken, F_OK) != 0;
	if (*name && !free_name) say("device name %s is taken, using a generated one", name);
	snprintf(what.ifr_name, IFNAMSIZ, "%s", free_name ? name : "zt%d");
	if (ioctl(tap->fd, TUNSETIFF, &what) < 0) return false;
	memcpy(tap->name, what.ifr_name, IFNAMSIZ);
	int size = sizeof(struct virtio_net_hdr);
	ioctl(tap->fd, TUNSETVNETHDRSZ, &size);
	set_offloads(tap, offloads_off);
	return true;
}

struct tap *tap_open(const char *name, const unsigned char mac[6], unsigned int mtu, unsigned int offloads_off) {
	struct tap *tap = calloc(1, sizeof *tap);
	if (!tap) return NULL;
	tap->references = 1;
	pthread_mutex_init(&tap->lock, NULL);
	tap->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	tap->control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	tap->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (tap->fd < 0 || tap->control < 0 || tap->wake < 0 || !attach(tap, name, offloads_off)) goto failed;
	struct ifreq hardware = {.ifr_hwaddr = {.sa_family = ARPHRD_ETHER}};
	memcpy(hardware.ifr_hwaddr.sa_data, mac, 6);
	struct ifreq queue = {.ifr_qlen = QUEUE_LENGTH}, flags = {0};
	request(tap, SIOCSIFTXQLEN, &queue);
	if (!request(tap, SIOCSIFHWADDR, &hardware) || !tap_set_mtu(tap, mtu)) goto failed;
	if (!request(tap, SIOCGIFFLAGS, &flags)) goto failed;
	flags.ifr_flags |= IFF_UP;
	if (!request(tap, SIOCSIFFLAGS, &flags)) goto failed;
	return tap;
failed:
	say("cannot make TAP %s: %s", name, strerror(errno));
	if (tap->fd >= 0) close(tap->fd);
	if (tap->control >= 0) close(tap->control);
	if (tap->wake >= 0) close(tap->wake);
	free(tap);
	return NULL;
}

static void release(struct tap *tap) {
	if (atomic_fetch_sub(&tap->references, 1) > 1) return;
	pthread_mutex_destroy(&tap->lock);
	free(tap);
}

const char *tap_name(const struct tap *tap) { return tap->name; }

unsigned int tap_offloads(const struct tap *tap) { return tap->offloads; }

static void write_frame(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	struct tap *tap = context;
	struct iovec pieces[2] = {{(void *)(uintptr_t)header, sizeof *header}, {(void *)(uintptr_t)frame, length}};
	pthread_mutex_lock(&tap->lock);
	if (!tap->closed) (void)!writev(tap->fd, pieces, 2); /* a full queue drops, as a wire does */
	pthread_mutex_unlock(&tap->lock);
}

void tap_flush(void) {
	if (!joiner || !joining) return;
	join_flush(joiner, write_frame, joining);
	release(joining);
	joining = NULL;
}

void tap_gather_here(void) {
	if (!joiner) joiner = calloc(1, sizeof *joiner);
}

void tap_gather_end(void) {
	tap_flush();
	free(joiner);
	joiner = NULL;
}

void tap_write(struct tap *tap, const unsigned char *frame, size_t length) {
	static const struct virtio_net_hdr plain;
	if (!joiner) {
		write_frame(tap, &plain, frame, length);
		return;
	}
	if (joining != tap) {
		tap_flush();
		atomic_fetch_add(&tap->references, 1);
		joining = tap;
		joiner->tcp = tap->offloads & OFFLOAD_TCP_GRO;
		joiner->udp = tap->offloads & OFFLOAD_UDP_GRO;
	}
	join_frame(joiner, frame, length, write_frame, tap);
}

struct reader {
	frame_handler *handler;
	void *context;
};

static void hand_over(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	(void)header;
	struct reader *reader = context;
	reader->handler(reader->context, frame, length);
}

bool tap_receive(struct tap *tap, frame_handler *handler, void *context, void (*after_batch)(void *),
                 const atomic_bool *stop) {
	unsigned char *buffer = malloc(FRAME_MAX);
	if (!buffer) return false;
	struct reader reader = {handler, context};
	struct pollfd polls[2] = {{.fd = tap->wake, .events = POLLIN}, {.fd = tap->fd, .events = POLLIN}};
	while (!*stop) {
		if (poll(polls, 2, -1) <= 0) continue;
		for (int i = 0; i < READ_BATCH; i++) {
			struct virtio_net_hdr header;
			struct iovec pieces[2] = {{&header, sizeof header}, {buffer, FRAME_MAX}};
			ssize_t got = readv(tap->fd, pieces, 2);
			if (got < (ssize_t)sizeof header) break;
			frame_split(&header, buffer, (size_t)got - sizeof header, hand_over, &reader);
		}
		after_batch(NULL);
		if (polls[1].revents & (POLLERR | POLLHUP) && !*stop) break; /* the device was deleted under us */
	}
	free(buffer);
	return true;
}

void tap_wake(struct tap *tap) {
	uint64_t one = 1;
	(void)!write(tap->wake, &one, sizeof one);
}

void tap_close(struct tap *tap) {
	pthread_mutex_lock(&tap->lock);
	tap->closed = true;
	close(tap->fd);
	pthread_mutex_unlock(&tap->lock);
	close(tap->wake);
	close(tap->control);
	release(tap);
}
