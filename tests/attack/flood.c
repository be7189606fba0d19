/* A flood of UDP packets with sources of its own choice, out of a packet socket: the sender owns no address that it uses.
 *
 *   flood DEVICE DESTINATION-MAC DESTINATION PORT SOURCE-PREFIX/24|SOURCE:PORT RATE PACKETS SEED
 *         [random=AT:LENGTH]… [copy=FROM:TO:LENGTH]… [flip=BITS]
 *
 * Payloads come from stdin, each a 16-bit length and its bytes, and go out in turn. `random` fills bytes of each packet
 * anew, `copy` then repeats some of them elsewhere, `flip` turns so many bits over. RATE is in packets per second; it ends
 * after PACKETS, later where the machine is slow, and says "sent N seconds S". IPv4 only, without UDP checksums.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { HEADERS = 14 + 20 + 8, MOST = 1472, BATCH = 64, TEMPLATES = 4096, EDITS = 8 };

struct edit {
	size_t from, to, length;
};
static unsigned char *templates[TEMPLATES];
static size_t lengths[TEMPLATES], count;
static struct edit randoms[EDITS], copies[EDITS];
static size_t random_count, copy_count;
static unsigned int flips;
static uint64_t state;

static uint64_t next(void) { /* xorshift64* */
	state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
	return state * 2685821657736338717ULL;
}

static double clock_s(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *why) {
	fprintf(stderr, "flood: %s\n", why);
	exit(2);
}

static void read_templates(void) {
	unsigned char head[2];
	while (count < TEMPLATES && fread(head, 1, 2, stdin) == 2) {
		lengths[count] = (size_t)head[0] << 8 | head[1];
		if (lengths[count] > MOST) fail("a payload is too long");
		templates[count] = malloc(lengths[count] + 1);
		if (fread(templates[count], 1, lengths[count], stdin) != lengths[count]) fail("a payload is cut off");
		count++;
	}
	if (!count) fail("no payloads");
}

static uint16_t sum_of(const unsigned char *data) {
	uint32_t sum = 0;
	for (int i = 0; i < 20; i += 2) sum += (uint32_t)data[i] << 8 | data[i + 1];
	while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static size_t fill(unsigned char *frame, uint64_t number, uint32_t source, uint16_t source_port) {
	size_t which = number % count, length = lengths[which];
	unsigned char *ip = frame + 14, *udp = ip + 20, *payload = udp + 8;
	memcpy(payload, templates[which], length);
	for (size_t i = 0; i < random_count; i++)
		for (size_t k = 0; k < randoms[i].length && randoms[i].from + k < length; k += 8) {
			uint64_t eight = next();
			size_t here = randoms[i].length - k < 8 ? randoms[i].length - k : 8, room = length - randoms[i].from - k;
			memcpy(payload + randoms[i].from + k, &eight, here < room ? here : room);
		}
	for (size_t i = 0; i < copy_count; i++)
		if (copies[i].from + copies[i].length <= length && copies[i].to + copies[i].length <= length)
			memmove(payload + copies[i].to, payload + copies[i].from, copies[i].length);
	for (unsigned int i = 0; length && i < flips; i++)
		payload[(next() >> 20) % length] ^= (unsigned char)(1 << (next() >> 40) % 8);
	uint64_t random = next();
	if (!source_port) source |= 3 + (uint32_t)(random >> 8) % 251, source_port = (uint16_t)(1024 + (random >> 20) % 64000);
	uint16_t whole = htons((uint16_t)(length + 28)), rest = htons((uint16_t)(length + 8)), port = htons(source_port);
	uint32_t address = htonl(source);
	memcpy(ip + 2, &whole, 2), memcpy(ip + 12, &address, 4);
	ip[10] = ip[11] = 0;
	uint16_t sum = htons(sum_of(ip));
	memcpy(ip + 10, &sum, 2), memcpy(udp, &port, 2), memcpy(udp + 4, &rest, 2);
	return HEADERS + length;
}

int main(int words, char **word) {
	if (words < 9) fail("read the head of flood.c");
	unsigned char mac[6];
	unsigned int byte[6], port;
	struct in_addr to, from;
	if (sscanf(word[2], "%x:%x:%x:%x:%x:%x", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4], &byte[5]) != 6)
		fail("no MAC");
	for (int i = 0; i < 6; i++) mac[i] = (unsigned char)byte[i];
	char *colon = strchr(word[5], ':'), *slash = strchr(word[5], '/');
	uint16_t source_port = colon ? (uint16_t)atoi(colon + 1) : 0;
	if (colon) *colon = 0;
	if (slash) *slash = 0;
	if (!inet_aton(word[3], &to) || !inet_aton(word[5], &from)) fail("no address");
	port = (unsigned int)atoi(word[4]);
	double rate = atof(word[6]);
	uint64_t packets = strtoull(word[7], NULL, 10);
	state = strtoull(word[8], NULL, 10) * 2862933555777941757ULL + 1;
	for (int i = 9; i < words; i++) {
		struct edit edit = {0};
		if (sscanf(word[i], "random=%zu:%zu", &edit.from, &edit.length) == 2 && random_count < EDITS)
			randoms[random_count++] = edit;
		else if (sscanf(word[i], "copy=%zu:%zu:%zu", &edit.from, &edit.to, &edit.length) == 3 && copy_count < EDITS)
			copies[copy_count++] = edit;
		else if (sscanf(word[i], "flip=%u", &flips) != 1) fail("what is that word?");
	}
	read_templates();

	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	int wide = 8 << 20, direct = 1;
	if (fd < 0) fail("no packet socket");
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &wide, sizeof wide);
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &direct, sizeof direct);
	struct sockaddr_ll device = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_halen = 6};
	device.sll_ifindex = (int)if_nametoindex(word[1]);
	if (!device.sll_ifindex || bind(fd, (struct sockaddr *)&device, sizeof device) < 0) fail("no such device");

	static unsigned char frames[BATCH][HEADERS + MOST];
	static struct iovec pieces[BATCH];
	static struct mmsghdr headers[BATCH];
	for (int i = 0; i < BATCH; i++) {
		unsigned char *frame = frames[i], *ip = frame + 14;
		memcpy(frame, mac, 6);
		memcpy(frame + 6, "\x02\x00\x00\xba\xd0\x01", 6);
		frame[12] = 8;
		ip[0] = 0x45, ip[8] = 64, ip[9] = 17;
		memcpy(ip + 16, &to, 4);
		uint16_t network_port = htons((uint16_t)port);
		memcpy(ip + 22, &network_port, 2);
		headers[i].msg_hdr.msg_iov = &pieces[i];
		headers[i].msg_hdr.msg_iovlen = 1;
	}
	double begin = clock_s();
	uint64_t made = 0, sent = 0;
	while (made < packets) {
		double due = (clock_s() - begin) * rate - (double)made;
		if (due < 1) {
			struct timespec pause = {0, 500000};
			nanosleep(&pause, NULL);
			continue;
		}
		int batch = due < BATCH ? (int)due : BATCH;
		for (int i = 0; i < batch; i++)
			pieces[i] = (struct iovec){frames[i], fill(frames[i], made++, ntohl(from.s_addr), source_port)};
		for (int done = 0; done < batch;) {
			int here = sendmmsg(fd, headers + done, (unsigned int)(batch - done), 0);
			if (here > 0) sent += (uint64_t)here;
			done += here > 0 ? here : 1;
		}
	}
	printf("sent %llu seconds %.1f\n", (unsigned long long)sent, clock_s() - begin);
	return 0;
}
