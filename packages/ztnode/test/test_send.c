/* What the kernel's answers about one destination mean for others: the kernel is played, and so are the sockets. */
#include "../src/send.c"

#include <assert.h>
#include <stdio.h>

enum { SOCKET = 7, LENGTH = 1000 };

static char played;
static struct underlay *const underlay_played = (struct underlay *)(void *)&played;
static struct binding socket_of = {.fd = SOCKET, .id = 1, .device = "eth0"};
static unsigned int refusals;
static bool takes_segments;        /* of any destination that is not bad */
static in_addr_t bad;              /* nothing can be sent there */
static unsigned int whole, single; /* messages of several packets that were taken, packets that went alone */
static bool strays;                /* nothing may be sent to the bad one, which the routes lead astray */

unsigned int underlay_offloads(const struct underlay *underlay) {
	(void)underlay;
	return OFFLOAD_UNDERLAY_GSO;
}
void underlay_hold(struct underlay *underlay) { (void)underlay; }
void underlay_release(struct underlay *underlay) { (void)underlay; }
void underlay_count_refusal(struct underlay *underlay) { (void)underlay, refusals++; }
struct binding *underlay_binding(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to) {
	(void)underlay;
	assert(id == 1 && to->ss_family == AF_INET);
	return strays && ((const struct sockaddr_in *)to)->sin_addr.s_addr == bad ? NULL : &socket_of;
}
size_t underlay_ids(struct underlay *underlay, const struct sockaddr_storage *to, int64_t ids[UNDERLAY_SOCKETS]) {
	(void)underlay, (void)to;
	ids[0] = 1;
	return 1;
}

static bool reaches(const struct sockaddr_in *to) {
	assert(to->sin_port != 0);
	errno = EINVAL;
	return to->sin_addr.s_addr != bad;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
	assert(fd == SOCKET && flags == 0);
	if (!reaches(message->msg_name) || !takes_segments) return -1;
	whole++;
	return (ssize_t)message->msg_iov->iov_len;
}

ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size) {
	assert(fd == SOCKET && bytes && flags == 0 && size == sizeof(struct sockaddr_in));
	if (!reaches((const struct sockaddr_in *)(const void *)to)) return -1;
	single++;
	return (ssize_t)length;
}

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags) {
	assert(fd == SOCKET && flags == 0);
	for (unsigned int i = 0; i < count; i++) assert(reaches(messages[i].msg_hdr.msg_name));
	single += count;
	return (int)count;
}

static struct sockaddr_storage address_of(const char *text) {
	struct sockaddr_storage address;
	assert(parse_address(text, '/', &address));
	return address;
}

/* Two packets in one message. */
static void send_two(const struct sockaddr_storage *to, size_t length) {
	static const unsigned char bytes[LENGTH];
	whole = single = 0;
	for (int i = 0; i < 2; i++) assert(send_packet(underlay_played, 1, to, bytes, length));
	send_flush();
}

static void begin(void) {
	socket_of.segments = (struct segments){0};
	takes_segments = true;
	refusals = 0;
	bad = 0;
	strays = false;
}

static void an_address_that_takes_nothing_stops_no_segments(void) {
	struct sockaddr_storage good = address_of("192.0.2.1/9993"), black_hole = address_of("198.51.100.1/9993");
	begin();
	bad = ((const struct sockaddr_in *)&black_hole)->sin_addr.s_addr;
	send_two(&black_hole, 40);
	assert(whole == 0 && single == 0 && refusals == 0);
	send_two(&good, LENGTH);
	assert(whole == 1 && single == 0 && refusals == 0);
}

static void a_device_without_segments_gets_packets(void) {
	struct sockaddr_storage good = address_of("192.0.2.1/9993");
	begin();
	takes_segments = false;
	send_two(&good, LENGTH);
	assert(whole == 0 && single == 2 && refusals == 1);
	takes_segments = true;
	send_two(&good, LENGTH);
	assert(whole == 0 && single == 2 && refusals == 1); /* not tried again so soon */
}

static void nothing_goes_to_port_0(void) {
	struct sockaddr_storage nowhere = address_of("192.0.2.1/0");
	begin();
	assert(!send_packet(underlay_played, 1, &nowhere, "12345678", 8) &&
	       !send_packet(underlay_played, -1, &nowhere, "12345678", 8));
	const unsigned char *room = send_place(underlay_played, 1, &nowhere, 8);
	assert(!room);
	send_flush();
}

static void without_a_device_each_destination_is_looked_at(void) {
	struct sockaddr_storage good = address_of("192.0.2.1/9993"), astray = address_of("198.51.100.1/9993");
	begin();
	memset(socket_of.device, 0, sizeof socket_of.device);
	bad = ((const struct sockaddr_in *)&astray)->sin_addr.s_addr;
	strays = true;
	single = 0;
	for (int i = 0; i < 4; i++) assert(send_packet(underlay_played, 1, i % 2 ? &astray : &good, "12345678", 8));
	send_flush();
	assert(single == 2);
}

int main(void) {
	an_address_that_takes_nothing_stops_no_segments();
	a_device_without_segments_gets_packets();
	nothing_goes_to_port_0();
	without_a_device_each_destination_is_looked_at();
	puts("ok");
	return 0;
}
