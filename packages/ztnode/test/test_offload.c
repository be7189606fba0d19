/* Cutting and joining are inverse: what was cut and joined again is what was there, byte by byte. */
#include "offload.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PILE 200

struct pile {
	unsigned int count;
	size_t lengths[PILE], used;
	struct virtio_net_hdr headers[PILE];
	unsigned char bytes[1 << 20];
};

static void collect(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	struct pile *pile = context;
	assert(pile->count < PILE && pile->used + length <= sizeof pile->bytes);
	memcpy(pile->bytes + pile->used, frame, length);
	if (header) pile->headers[pile->count] = *header;
	pile->lengths[pile->count++] = length;
	pile->used += length;
}

/* A TCP frame with its IP checksum; the TCP checksum is left to the caller. */
static size_t make(unsigned char *frame, bool v6, uint32_t sequence, unsigned char flags, size_t payload,
                   unsigned int seed) {
	size_t ip_header = v6 ? 40 : 20, headers = 14 + ip_header + 32;
	memset(frame, 0, headers);
	memset(frame, 2, 12);
	unsigned char *ip = frame + 14, *tcp = ip + ip_header;
	frame[12] = v6 ? 0x86 : 0x08;
	frame[13] = v6 ? 0xdd : 0x00;
	if (v6) {
		ip[0] = 0x60;
		ip[4] = (unsigned char)((32 + payload) >> 8);
		ip[5] = (unsigned char)(32 + payload);
		ip[6] = IPPROTO_TCP;
		ip[7] = 64;
		memset(ip + 8, 0x20, 32);
	} else {
		ip[0] = 0x45;
		ip[2] = (unsigned char)((52 + payload) >> 8);
		ip[3] = (unsigned char)(52 + payload);
		ip[6] = 0x40;
		ip[8] = 64;
		ip[9] = IPPROTO_TCP;
		memset(ip + 12, 10, 8);
		uint16_t sum = (uint16_t)~checksum(ip, 20, 0);
		ip[10] = (unsigned char)(sum >> 8);
		ip[11] = (unsigned char)sum;
	}
	tcp[0] = 0x14;
	tcp[3] = 80;
	for (int i = 0; i < 4; i++) tcp[4 + i] = (unsigned char)(sequence >> (24 - 8 * i));
	tcp[12] = 8 << 4;
	tcp[13] = flags;
	tcp[20] = tcp[21] = 1;
	srand(seed);
	for (size_t i = 0; i < payload; i++) frame[headers + i] = (unsigned char)rand();
	return headers + payload;
}

static void whole_circle(bool v6, size_t payload, uint16_t segment) {
	static unsigned char frame[FRAME_MAX + 100], copy[FRAME_MAX + 100];
	static struct pile cut, joined;
	static struct joiner joiner = {.tcp = true, .udp = true};
	memset(&cut, 0, sizeof cut);
	memset(&joined, 0, sizeof joined);
	size_t length = make(frame, v6, 0xfffffff0u, 0x18, payload, (unsigned int)payload);
	memcpy(copy, frame, length);
	struct virtio_net_hdr header = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
	                                .gso_type = v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4,
	                                .gso_size = segment};
	assert(frame_split(&header, frame, length, collect, &cut));
	assert(cut.count == (payload + segment - 1) / segment);
	for (size_t i = 0, at = 0; i < cut.count; at += cut.lengths[i++])
		join_frame(&joiner, cut.bytes + at, cut.lengths[i], collect, &joined);
	join_flush(&joiner, collect, &joined);
	assert(joined.count == 1 && joined.lengths[0] == length);
	size_t headers = length - payload;
	assert(memcmp(joined.bytes + headers, copy + headers, payload) == 0);
	assert(memcmp(joined.bytes + 14, copy + 14, v6 ? 40 : 10) == 0);
	if (cut.count > 1) {
		assert(joined.headers[0].gso_size == segment);
		assert(joined.headers[0].gso_type == header.gso_type);
	} else {
		assert(joined.headers[0].gso_type == VIRTIO_NET_HDR_GSO_NONE);
	}
}

/* What must not be joined keeps its order and its bytes. */
static void order_is_kept(void) {
	static struct pile cut, out;
	static struct joiner joiner = {.tcp = true, .udp = true};
	static unsigned char frame[4096];
	memset(&out, 0, sizeof out);
	struct virtio_net_hdr sum = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = VIRTIO_NET_HDR_GSO_TCPV4, .gso_size = 1400};
	const struct {
		uint32_t sequence;
		unsigned char flags;
	} sent[] = {{1000, 16}, {1100, 16}, {5000, 16}, {1200, 17}, {1300, 2}, {1400, 16}};
	for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
		memset(&cut, 0, sizeof cut);
		size_t length = make(frame, false, sent[i].sequence, sent[i].flags, 100, 7);
		assert(frame_split(&sum, frame, length, collect, &cut));
		join_frame(&joiner, cut.bytes, cut.lengths[0], collect, &out);
	}
	join_flush(&joiner, collect, &out);
	/* 1000 and 1100 join; a gap, FIN and SYN do not. */
	assert(out.count == 5 && out.headers[0].gso_size == 100);
	static const uint32_t starts[] = {1000, 5000, 1200, 1300, 1400};
	size_t at = 0;
	for (size_t i = 0; i < 5; at += out.lengths[i++]) {
		const unsigned char *tcp = out.bytes + at + 34;
		assert(((uint32_t)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7]) == starts[i]);
	}
}

static void damage_is_not_hidden(void) {
	static struct pile cut, out;
	static struct joiner joiner = {.tcp = true, .udp = true};
	static unsigned char frame[8192];
	memset(&cut, 0, sizeof cut);
	memset(&out, 0, sizeof out);
	struct virtio_net_hdr header = {.gso_type = VIRTIO_NET_HDR_GSO_TCPV4, .gso_size = 1000};
	size_t length = make(frame, false, 1, 16, 3000, 3);
	assert(frame_split(&header, frame, length, collect, &cut));
	cut.bytes[cut.lengths[0] + 200] ^= 1; /* in the second piece */
	for (size_t i = 0, at = 0; i < 3; at += cut.lengths[i++])
		join_frame(&joiner, cut.bytes + at, cut.lengths[i], collect, &out);
	join_flush(&joiner, collect, &out);
	assert(out.count == 3); /* none joined over it, and its wrong checksum still shows */
}

static void malformed_headers(void) {
	static struct pile out;
	static unsigned char frame[200];
	struct virtio_net_hdr far = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 190, .csum_offset = 16};
	assert(!frame_split(&far, frame, 200, collect, &out));
	struct virtio_net_hdr zero = {.gso_type = VIRTIO_NET_HDR_GSO_TCPV4};
	size_t length = make(frame, false, 1, 16, 60, 1);
	assert(!frame_split(&zero, frame, length, collect, &out));
	struct virtio_net_hdr other = {.gso_type = VIRTIO_NET_HDR_GSO_UDP, .gso_size = 10};
	assert(!frame_split(&other, frame, length, collect, &out));
	assert(!frame_split(&zero, frame, 10, collect, &out));
	assert(out.count == 0);
}

/* Headers that IPv6 may have before TCP: they are cut however long they are; of a routed packet, the checksum is that of
 * where it ends, which is not the address in its header. */
static void super_packets_with_more_headers(void) {
	static unsigned char frame[FRAME_MAX];
	enum { PAYLOAD = 5000, SEGMENT = 1200, IP = 14, MORE = IP + 40 };
	const struct {
		unsigned char type;
		size_t size;
	} more[] = {{IPPROTO_DSTOPTS, 8}, {IPPROTO_DSTOPTS, 512}, {IPPROTO_ROUTING, 24}, {IPPROTO_ROUTING, 1024}};
	for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
		static struct pile out;
		size_t size = more[i].size, length = make(frame, true, 7, 0x18, PAYLOAD, 3) + size, tcp = MORE + size;
		memmove(frame + tcp, frame + MORE, length - tcp);
		memset(frame + MORE, 0, size);
		frame[IP + 6] = more[i].type, frame[MORE] = IPPROTO_TCP, frame[MORE + 1] = (unsigned char)(size / 8 - 1);
		put16(frame + IP + 4, (uint16_t)(length - MORE));
		bool routed = more[i].type == IPPROTO_ROUTING;
		unsigned char end[16];
		memset(end, routed ? 0x77 : 0x20, sizeof end);
		uint64_t sum = IPPROTO_TCP + checksum(frame + IP + 8, 16, checksum(end, 16, 0));
		put16(frame + tcp + 16, checksum(NULL, 0, sum + length - tcp));
		memset(&out, 0, sizeof out);
		struct virtio_net_hdr header = {
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = VIRTIO_NET_HDR_GSO_TCPV6, .gso_size = SEGMENT};
		assert(frame_split(&header, frame, length, collect, &out) && out.count == 5);
		unsigned char *got = out.bytes;
		for (unsigned int piece = 0; piece < 5; got += out.lengths[piece++]) {
			size_t here = out.lengths[piece], covered = here - tcp;
			assert(covered == 32 + (piece < 4 ? SEGMENT : PAYLOAD - 4 * SEGMENT) && get16(got + IP + 4) == here - MORE);
			assert(get32(got + tcp + 4) == 7 + piece * SEGMENT && memcmp(got + MORE, frame + MORE, 2) == 0);
			assert(checksum(got + tcp, covered, sum + covered) == 0xffff);
		}
	}
}

/* -- UDP */

enum { TAGGED = 1, V6 = 2, NO_DF = 4, NO_SUM = 8 };

/* A datagram as a host sends it; `kind` is some of the above, `number` the identification and what the payload is made of.
 */
static size_t datagram(unsigned char *frame, unsigned int kind, uint16_t port, uint16_t number, size_t payload) {
	size_t ip_at = kind & TAGGED ? 18 : 14, udp_at = ip_at + (kind & V6 ? 40 : 20), udp_length = 8 + payload;
	memset(frame, 0, udp_at + 8);
	memset(frame, 2, 12);
	if (kind & TAGGED) put16(frame + 12, 0x8100), put16(frame + 14, 5);
	put16(frame + ip_at - 2, kind & V6 ? 0x86dd : 0x0800);
	unsigned char *ip = frame + ip_at, *udp = frame + udp_at;
	if (kind & V6) {
		ip[0] = 0x60;
		put16(ip + 4, (uint16_t)udp_length);
		ip[6] = IPPROTO_UDP;
		ip[7] = 64;
		memset(ip + 8, 0x20, 32);
	} else {
		ip[0] = 0x45;
		put16(ip + 2, (uint16_t)(20 + udp_length));
		put16(ip + 4, number);
		ip[6] = kind & NO_DF ? 0 : 0x40;
		ip[8] = 64;
		ip[9] = IPPROTO_UDP;
		memset(ip + 12, 10, 8);
		put16(ip + 10, (uint16_t)~checksum(ip, 20, 0));
	}
	put16(udp, 4433);
	put16(udp + 2, port);
	put16(udp + 4, (uint16_t)udp_length);
	srand(number);
	for (size_t i = 0; i < payload; i++) udp[8 + i] = (unsigned char)rand();
	struct headers at = {.v6 = kind & V6, .protocol = IPPROTO_UDP, .ip = ip_at, .transport = udp_at, .payload = udp_at + 8};
	headers_set_checksum(frame, &at, udp_at + udp_length);
	if (kind & NO_SUM) put16(udp + 6, 0);
	return udp_at + 8 + payload;
}

/* Some datagrams of one flow, one after the other, through the joiner and, in super-packets, through the splitter. */
struct trip {
	struct pile sent, joined, received;
	struct joiner joiner;
};

static void put_in(struct trip *trip, const unsigned char *frame, size_t length) {
	collect(&trip->sent, NULL, frame, length);
	join_frame(&trip->joiner, frame, length, collect, &trip->joined);
}

static struct trip *new_trip(void) {
	struct trip *trip = calloc(1, sizeof *trip);
	assert(trip);
	trip->joiner.tcp = trip->joiner.udp = true;
	return trip;
}

/* Whether what comes out is what was put in, byte by byte and in order; returns in how many writes. */
static unsigned int end_trip(struct trip *trip) {
	join_flush(&trip->joiner, collect, &trip->joined);
	for (size_t i = 0, at = 0; i < trip->joined.count; at += trip->joined.lengths[i++])
		assert(frame_split(&trip->joined.headers[i], trip->joined.bytes + at, trip->joined.lengths[i], collect,
		                   &trip->received));
	unsigned int writes = trip->joined.count;
	assert(trip->received.count == trip->sent.count && trip->received.used == trip->sent.used);
	assert(memcmp(trip->received.lengths, trip->sent.lengths, sizeof trip->sent.lengths) == 0);
	assert(memcmp(trip->received.bytes, trip->sent.bytes, trip->sent.used) == 0);
	free(trip);
	return writes;
}

static unsigned int through(unsigned int kind, const size_t *payloads, size_t count) {
	unsigned char frame[2000];
	struct trip *trip = new_trip();
	for (size_t i = 0; i < count; i++) put_in(trip, frame, datagram(frame, kind, 443, (uint16_t)(0xfffe + i), payloads[i]));
	return end_trip(trip);
}

static void datagrams_of_a_flow(void) {
	static const size_t same[] = {1200, 1200, 1200, 1200}, last[] = {1200, 1200, 7}, longer[] = {7, 1200, 1200, 1201};
	static const size_t odd[] = {1, 1, 1, 0, 1, 1}, back[] = {1200, 7, 7, 1200, 1200};
	size_t many[150];
	for (size_t i = 0; i < 150; i++) many[i] = 100;
	for (unsigned int kind = 0; kind < 8; kind++) {
		if (kind & V6 && kind & NO_DF) continue;
		assert(through(kind, same, 4) == 1);
		assert(through(kind, last, 3) == 1);   /* the last one may be shorter */
		assert(through(kind, longer, 4) == 3); /* none may be longer */
		assert(through(kind, odd, 6) == 3);    /* an empty one goes alone, where it was */
		assert(through(kind, back, 5) == 3);   /* nothing after a shorter one */
		assert(through(kind, many, 150) == 3); /* 64 in one */
		assert(through(kind | NO_SUM, same, 4) == 4);
	}
}

/* A second datagram that differs from the first by one byte of its headers is written by itself. */
static void headers_must_agree(void) {
	static const struct {
		unsigned int kind;
		size_t at;
		unsigned char flip;
	} changes[] = {
		{0, 3, 1},                       /* destination MAC */
		{0, 11, 1},                      /* source MAC */
		{TAGGED, 15, 2},                 /* VLAN */
		{TAGGED, 14, 0x20},              /* its priority */
		{0, 15, 4},                      /* TOS */
		{0, 20, 0x40},                   /* DF */
		{0, 20, 0x80},                   /* the reserved bit */
		{NO_DF, 19, 4},                  /* identification without DF */
		{0, 22, 1},                      /* TTL */
		{0, 29, 1},                      /* source */
		{0, 33, 1},                      /* destination */
		{0, 35, 1},                      /* ports */
		{0, 37, 1},         {V6, 14, 1}, /* traffic class */
		{V6, 17, 1},                     /* flow label */
		{V6, 21, 1},                     /* hop limit */
		{V6, 37, 1},                     /* source */
		{V6, 53, 1},                     /* destination */
	};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		unsigned char frame[200];
		struct headers at;
		struct trip *trip = new_trip();
		for (uint16_t number = 1; number < 3; number++) {
			size_t length = datagram(frame, changes[i].kind, 443, number, 100);
			if (number == 2) {
				frame[changes[i].at] ^= changes[i].flip;
				assert(headers_find(frame, length, &at) == HEADERS_FLOW);
				headers_set_length(frame, &at, length);
				headers_set_checksum(frame, &at, length);
			}
			put_in(trip, frame, length);
		}
		assert(end_trip(trip) == 2);
	}
}

/* What has a wrong checksum, a length that is not its own, options, or many receivers is written as it came. */
static void doubtful_datagrams(void) {
	static const size_t flips[] = {200, 41, 39, 25, 17};
	unsigned char frame[300];
	for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
		struct trip *trip = new_trip();
		for (uint16_t number = 1; number < 4; number++) {
			size_t length = datagram(frame, 0, 443, number, 200);
			if (number == 2) frame[flips[i]] ^= 1;
			put_in(trip, frame, length);
		}
		assert(end_trip(trip) == 3);
	}
	struct trip *trip = new_trip();
	for (uint16_t number = 1; number < 4; number++) {
		size_t length = datagram(frame, 0, 443, number, 200);
		frame[0] |= 1;
		put_in(trip, frame, length);
	}
	assert(end_trip(trip) == 3);
	trip = new_trip();
	trip->joiner.udp = false;
	for (uint16_t number = 1; number < 4; number++) put_in(trip, frame, datagram(frame, 0, 443, number, 200));
	assert(end_trip(trip) == 3);
}

/* A fragment has no ports, so whatever waits goes before it. */
static void fragments_keep_their_place(void) {
	for (unsigned int kind = 0; kind <= V6; kind += V6) {
		unsigned char frame[300];
		struct trip *trip = new_trip();
		for (uint16_t number = 1; number < 6; number++) {
			size_t length = datagram(frame, kind, 443, number, 200);
			if (number == 3) {
				if (kind & V6) frame[20] = IPPROTO_FRAGMENT;
				else put16(frame + 20, 25);
				put16(frame + 24, 0);
				if (!(kind & V6)) put16(frame + 24, (uint16_t)~checksum(frame + 14, 20, 0));
			}
			put_in(trip, frame, length);
		}
		assert(end_trip(trip) == 3);
	}
}

/* Flows keep their order each; more of them than the joiner has places for lose nothing. */
static void many_flows(void) {
	unsigned char frame[300];
	static struct pile out;
	static struct joiner joiner = {.udp = true};
	memset(&out, 0, sizeof out);
	for (uint16_t number = 0; number < 60; number++) {
		size_t length = datagram(frame, 0, (uint16_t)(1 + number % 20), number / 20, 200);
		join_frame(&joiner, frame, length, collect, &out);
	}
	join_flush(&joiner, collect, &out);
	uint16_t next[21] = {0};
	assert(out.count == 60 || JOIN_FLOWS >= 20);
	for (size_t i = 0, at = 0; i < out.count; at += out.lengths[i++]) {
		uint16_t port = get16(out.bytes + at + 36), count = (uint16_t)((out.lengths[i] - 42) / 200);
		assert(port <= 20 && get16(out.bytes + at + 18) == next[port]);
		next[port] = (uint16_t)(next[port] + count);
	}
	for (int port = 1; port <= 20; port++) assert(next[port] == 3);
}

/* A super-packet of the kernel: each datagram has a length, an identification and a checksum of its own. */
static void super_packets_of_udp(void) {
	static unsigned char frame[FRAME_MAX], want[2000];
	for (unsigned int kind = 0; kind < 4; kind++) {
		static struct pile out;
		memset(&out, 0, sizeof out);
		size_t length = datagram(frame, kind, 443, 0xffff, 5000), headers = length - 5000, done = 0;
		struct virtio_net_hdr header = {
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4, .gso_size = 1345};
		assert(frame_split(&header, frame, length, collect, &out) && out.count == 4);
		for (size_t i = 0; i < 4; i++, done += 1345) {
			size_t here = i < 3 ? 1345 : 5000 - 3 * 1345;
			const unsigned char *got = out.bytes + (headers + 1345) * i;
			assert(out.lengths[i] == headers + here);
			datagram(want, kind, 443, (uint16_t)(0xffff + i), here);
			assert(memcmp(got, want, headers - 2) == 0);
			struct headers at;
			assert(headers_find(got, out.lengths[i], &at) == HEADERS_FLOW && at.payload == headers);
			assert(checksum(got + at.transport, 8 + here, headers_pseudo_sum(got, &at, 8 + here)) == 0xffff);
		}
	}
	static struct pile none;
	size_t length = make(frame, false, 1, 16, 60, 1);
	struct virtio_net_hdr wrong = {.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4, .gso_size = 10};
	assert(!frame_split(&wrong, frame, length, collect, &none));
	length = datagram(frame, 0, 443, 1, 0);
	assert(!frame_split(&wrong, frame, length, collect, &none) && none.count == 0);
}

/* Sixteen bits at a time, as the RFC says it. */
static uint16_t plain_checksum(const unsigned char *data, size_t length, uint64_t sum) {
	for (size_t i = 0; i < length; i++) sum += (uint64_t)data[i] << (i % 2 ? 0 : 8);
	while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void checksums_of_all_lengths(void) {
	unsigned char data[FRAME_MAX];
	for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 151 + i / 256);
	for (int ones = 0; ones < 2; ones++) {
		for (size_t length = 0; length < 200; length++)
			for (size_t from = 0; from < 33; from++)
				assert(checksum(data + from, length, from * 4099) == plain_checksum(data + from, length, from * 4099));
		for (size_t length = 1400; length < sizeof data; length += 1231)
			assert(checksum(data, length, 1) == plain_checksum(data, length, 1));
		memset(data, 0xff, sizeof data); /* the most that can be carried */
	}
}

/* A checksum of zero says that there is none, so one that comes to zero is sent as 0xffff. */
static void checksums_of_zero(void) {
	static unsigned char frame[200], copy[200];
	static struct pile out;
	size_t length = datagram(frame, 0, 443, 1, 100);
	uint16_t sum = get16(frame + 40);
	put16(frame + 42, (uint16_t)checksum(frame + 42, 2, sum)); /* take it into the data, so that the rest comes to zero */
	memcpy(copy, frame, length);
	for (int super = 0; super < 2; super++) {
		struct virtio_net_hdr header = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 6};
		if (super) header.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4, header.gso_size = 100;
		struct headers at;
		memcpy(frame, copy, length);
		assert(headers_find(frame, length, &at) == HEADERS_FLOW);
		put16(frame + 40, checksum(NULL, 0, headers_pseudo_sum(frame, &at, 108)));
		memset(&out, 0, sizeof out);
		assert(frame_split(&header, frame, length, collect, &out));
		assert(get16(out.bytes + 40) == 0xffff);
	}
}

/* TCP whose second frame differs from the first in a byte that one header cannot say twice. */
static void tcp_headers_must_agree(void) {
	static const struct {
		size_t at;
		unsigned char value;
	} changes[] = {
		{46, 0x81}, /* the flag AE */
		{46, 0x82}, /* a reserved one */
		{48, 1},    /* window */
		{53, 6},    /* urgent pointer, without its flag */
		{54, 9},    /* an option */
	};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		unsigned char frame[300];
		struct headers at;
		struct trip *trip = new_trip();
		for (uint32_t number = 0; number < 2; number++) {
			size_t length = make(frame, false, 100 * number, 16, 100, number);
			if (number) frame[changes[i].at] = changes[i].value;
			assert(headers_find(frame, length, &at) == HEADERS_FLOW);
			headers_set_checksum(frame, &at, length);
			put_in(trip, frame, length);
		}
		assert(end_trip(trip) == 2);
	}
}

/* The three flags that count what was marked (RFC 9768): AE, CWR and ECE. */
static void set_ace(unsigned char *tcp, unsigned int ace) {
	tcp[12] = (unsigned char)(8 << 4 | ace >> 2);
	tcp[13] = (unsigned char)((tcp[13] & 0x3f) | (ace & 3) << 6);
}

/* Segments of 100 bytes with these counts and the ECN field `ecn`; returns in how many writes they go. */
static unsigned int counted(bool v6, unsigned char ecn, const unsigned int *aces, size_t count) {
	unsigned char frame[300];
	struct trip *trip = new_trip();
	for (size_t i = 0; i < count; i++) {
		size_t length = make(frame, v6, (uint32_t)(100 * i), 16, 100, (unsigned int)i);
		struct headers at;
		assert(headers_find(frame, length, &at) == HEADERS_FLOW);
		if (!v6) put16(frame + at.ip + 4, (uint16_t)i);
		frame[at.ip + 1] = (unsigned char)(v6 ? ecn << 4 : ecn);
		set_ace(frame + at.transport, aces[i]);
		headers_set_length(frame, &at, length);
		headers_set_checksum(frame, &at, length);
		put_in(trip, frame, length);
	}
	return end_trip(trip);
}

/* With Accurate ECN all data carries a count, 5 where nothing was marked. Cut again, each segment has the one of the joined
 * packet, but for CWR, which the kernel leaves on the first alone. */
static void accurate_ecn(void) {
	for (int v6 = 0; v6 < 2; v6++) {
		assert(counted(v6, 1, (const unsigned int[]){5, 5, 5, 5}, 4) == 1);
		assert(counted(v6, 1, (const unsigned int[]){5, 5, 6, 6}, 4) == 3);
		for (unsigned int a = 0; a < 8; a++)
			for (unsigned int b = 0; b < 8; b++)
				assert(counted(v6, 1, (const unsigned int[]){a, b}, 2) == (a == b && !(a & 2) ? 1 : 2));
		assert(counted(v6, 2, (const unsigned int[]){5, 5, 5}, 3) == 1);
		/* A flag that nobody has a use for yet, on both. */
		assert(counted(v6, 1, (const unsigned int[]){5 + 8, 5 + 8}, 2) == 2);
		/* Marked ones are counted by the kernel that they are written to. */
		assert(counted(v6, 3, (const unsigned int[]){5, 5, 5}, 3) == 3);
		assert(counted(v6, 3, (const unsigned int[]){0, 0, 0}, 3) == 3);
	}
}

/* Each segment of a super-packet has the flags that the kernel would give it: AE and ECE all of them, CWR the first. */
static void super_packets_with_counts(void) {
	static unsigned char frame[FRAME_MAX];
	for (unsigned int ace = 0; ace < 8; ace++) {
		static struct pile out;
		memset(&out, 0, sizeof out);
		size_t length = make(frame, false, 1, 0x18, 5000, ace);
		set_ace(frame + 34, ace);
		struct virtio_net_hdr header = {
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = VIRTIO_NET_HDR_GSO_TCPV4, .gso_size = 1342};
		if (ace & 2) header.gso_type |= VIRTIO_NET_HDR_GSO_ECN;
		assert(frame_split(&header, frame, length, collect, &out) && out.count == 4);
		const unsigned char *tcp = out.bytes + 34;
		for (unsigned int piece = 0; piece < 4; tcp += out.lengths[piece++]) {
			unsigned int want = piece ? ace & 5 : ace;
			assert(tcp[12] == (8 << 4 | want >> 2) && tcp[13] == ((want & 3) << 6 | (piece == 3 ? 0x18 : 0x10)));
		}
	}
}

/* Hosts that do not fragment may give all datagrams one identification; it is not a reason to write them one by one. */
static void identification_does_not_matter_with_df(void) {
	static struct pile out;
	static struct joiner joiner = {.udp = true};
	unsigned char frame[300];
	for (int i = 0; i < 3; i++) join_frame(&joiner, frame, datagram(frame, 0, 443, 0, 200), collect, &out);
	join_flush(&joiner, collect, &out);
	assert(out.count == 1 && out.headers[0].gso_type == VIRTIO_NET_HDR_GSO_UDP_L4 && out.headers[0].gso_size == 200);
	assert(out.headers[0].csum_start == 34 && out.headers[0].csum_offset == 6 && out.headers[0].hdr_len == 42);
}

/* TCP behind VLAN tags, which a TAP hands over in super-packets, too. */
static void tagged_tcp(void) {
	static unsigned char frame[FRAME_MAX], tagged[FRAME_MAX];
	static struct pile cut, joined;
	static struct joiner joiner = {.tcp = true};
	size_t length = make(frame, false, 77, 0x18, 4000, 9);
	memcpy(tagged, frame, 12);
	put16(tagged + 12, 0x8100);
	put16(tagged + 14, 5);
	memcpy(tagged + 16, frame + 12, length - 12);
	struct virtio_net_hdr header = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = VIRTIO_NET_HDR_GSO_TCPV4, .gso_size = 1338};
	assert(frame_split(&header, tagged, length + 4, collect, &cut) && cut.count == 3);
	for (size_t i = 0, at = 0; i < cut.count; at += cut.lengths[i++])
		join_frame(&joiner, cut.bytes + at, cut.lengths[i], collect, &joined);
	join_flush(&joiner, collect, &joined);
	assert(joined.count == 1 && joined.lengths[0] == length + 4);
	assert(memcmp(joined.bytes + 70, frame + 66, 4000) == 0 && joined.headers[0].csum_start == 38);
}

int main(void) {
	static const size_t payloads[] = {1, 1342, 1343, 2684, 30000, 60000};
	for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
		whole_circle(false, payloads[i], 1342);
		whole_circle(true, payloads[i], 1322);
	}
	order_is_kept();
	damage_is_not_hidden();
	super_packets_with_more_headers();
	malformed_headers();
	datagrams_of_a_flow();
	headers_must_agree();
	doubtful_datagrams();
	fragments_keep_their_place();
	many_flows();
	super_packets_of_udp();
	checksums_of_all_lengths();
	checksums_of_zero();
	tagged_tcp();
	tcp_headers_must_agree();
	accurate_ecn();
	super_packets_with_counts();
	identification_does_not_matter_with_df();
	puts("offload: good");
	return 0;
}
