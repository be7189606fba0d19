/* Cutting and joining are inverse: what was cut and joined again is what was there, byte by byte. */
#include "offload.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pile {
	unsigned int count;
	size_t lengths[64], used;
	struct virtio_net_hdr headers[64];
	unsigned char bytes[1 << 20];
};

static void collect(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	struct pile *pile = context;
	assert(pile->count < 64 && pile->used + length <= sizeof pile->bytes);
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
	static struct joiner joiner;
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
	static struct joiner joiner;
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
	static struct joiner joiner;
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

int main(void) {
	static const size_t payloads[] = {1, 1342, 1343, 2684, 30000, 60000};
	for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
		whole_circle(false, payloads[i], 1342);
		whole_circle(true, payloads[i], 1322);
	}
	order_is_kept();
	damage_is_not_hidden();
	malformed_headers();
	puts("offload: good");
	return 0;
}
