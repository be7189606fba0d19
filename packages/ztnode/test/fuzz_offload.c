/* Any bytes as frames from the TAP and from peers: no crash, and nothing longer than it may be. Then frames of some flows,
 * right and slightly wrong ones: joined and cut again, each flow has the same frames in the same order, and a super-packet
 * that is cut and joined again is what it was. */
#include "offload.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAMES 100
#define LARGEST 700

struct pile {
	size_t count, used, at[FRAMES], lengths[FRAMES];
	unsigned char bytes[FRAMES * LARGEST];
};
static struct pile sent, received;
static struct joiner joiner;

static void need(bool truth) {
	if (!truth) abort();
}

static void check(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	(void)context, (void)header, (void)frame;
	need(length <= FRAME_MAX);
}

static void collect(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	struct pile *pile = context;
	(void)header;
	need(pile->count < FRAMES && pile->used + length <= sizeof pile->bytes);
	pile->at[pile->count] = pile->used;
	pile->lengths[pile->count++] = length;
	memcpy(pile->bytes + pile->used, frame, length);
	pile->used += length;
}

static void any_bytes(const uint8_t *data, size_t size) {
	struct virtio_net_hdr header;
	memcpy(&header, data, sizeof header);
	unsigned char *frame = malloc(size - sizeof header);
	memcpy(frame, data + sizeof header, size - sizeof header);
	frame_split(&header, frame, size - sizeof header, check, NULL);
	free(frame);
	size_t piece = data[0] + 14u;
	joiner.tcp = joiner.udp = true;
	for (size_t at = 0; at + piece <= size; at += piece) join_frame(&joiner, data + at, piece, check, NULL);
	join_flush(&joiner, check, NULL);
}

/* -- frames of flows */

enum { TAGGED = 1, V6 = 2, DF = 4, TCP = 8, NO_SUM = 16, PSH = 32, AE = 64, ECE = 128 };

static void complete(unsigned char *frame, size_t length) {
	struct headers at;
	if (headers_find(frame, length, &at) != HEADERS_FLOW) return;
	headers_set_length(frame, &at, length);
	headers_set_checksum(frame, &at, length);
}

/* A frame of `kind`; returns where its payload of `length` bytes, which counts up from `number`, begins. */
static size_t make(unsigned char *frame, unsigned int kind, unsigned int port, uint32_t number, size_t length) {
	size_t ip_at = kind & TAGGED ? 18 : 14, at = ip_at + (kind & V6 ? 40 : 20), headers = at + (kind & TCP ? 32 : 8);
	memset(frame, 0, headers);
	if (kind & TAGGED) put16(frame + 12, 0x8100);
	put16(frame + ip_at - 2, kind & V6 ? 0x86dd : 0x0800);
	frame[ip_at] = kind & V6 ? 0x60 : 0x45;
	frame[ip_at + (kind & V6 ? 6 : 9)] = kind & TCP ? IPPROTO_TCP : IPPROTO_UDP;
	if (!(kind & V6)) {
		frame[ip_at + 6] = kind & DF ? 0x40 : 0;
		put16(frame + ip_at + 4, (uint16_t)number);
	}
	put16(frame + at + 2, (uint16_t)port);
	if (kind & TCP) {
		put32(frame + at + 4, number);
		frame[at + 12] = kind & AE ? 8 << 4 | 1 : 8 << 4;
		frame[at + 13] = (unsigned char)((kind & PSH ? 24 : 16) | (kind & ECE ? 64 : 0));
	}
	for (size_t i = 0; i < length; i++) frame[headers + i] = (unsigned char)(number + i);
	complete(frame, headers + length);
	if (kind & NO_SUM && !(kind & TCP)) put16(frame + at + 6, 0);
	return headers;
}

/* What two frames of one flow have in common: all up to the ports but what may differ from frame to frame. */
static size_t flow_of(const unsigned char *frame, size_t length, unsigned char key[64]) {
	struct headers at;
	memset(key, 0, 64);
	if (headers_find(frame, length, &at) != HEADERS_FLOW) return 0;
	memcpy(key, frame, at.ip);
	memcpy(key + 20, frame + at.ip + (at.v6 ? 8 : 12), at.v6 ? 32 : 8);
	memcpy(key + 52, frame + at.transport, 4);
	key[56] = at.protocol;
	key[57] = at.v6;
	return 1;
}

/* The identification of a packet that nobody may fragment says nothing. */
static void blank(unsigned char *frame, size_t length) {
	struct headers at;
	if (headers_find(frame, length, &at) != HEADERS_FLOW || at.v6 || !(frame[at.ip + 6] & 0x40)) return;
	memset(frame + at.ip + 4, 0, 2);
	memset(frame + at.ip + 10, 0, 2);
}

/* Each flow of one pile is in the other, in order. */
static void same_flows(void) {
	static bool seen[FRAMES];
	memset(seen, 0, sizeof seen);
	need(sent.count == received.count);
	for (size_t i = 0; i < sent.count; i++) {
		unsigned char key[64], other[64], *a = sent.bytes + sent.at[i];
		size_t known = flow_of(a, sent.lengths[i], key), j = 0;
		for (; j < received.count; j++)
			if (!seen[j] && flow_of(received.bytes + received.at[j], received.lengths[j], other) == known &&
			    memcmp(key, other, 64) == 0)
				break;
		need(j < received.count && received.lengths[j] == sent.lengths[i]);
		unsigned char *b = received.bytes + received.at[j];
		blank(a, sent.lengths[i]);
		blank(b, sent.lengths[i]);
		need(memcmp(a, b, sent.lengths[i]) == 0);
		seen[j] = true;
	}
}

static void cut_again(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	static unsigned char copy[FRAME_MAX];
	memcpy(copy, frame, length);
	need(frame_split(header, copy, length, collect, context));
}

/* Six bytes for each frame. */
static void joined_and_cut(const uint8_t *data, size_t size) {
	unsigned char frame[LARGEST];
	uint32_t number[4] = {0};
	sent.count = sent.used = received.count = received.used = 0;
	for (size_t i = 0; i + 6 <= size && sent.count < FRAMES; i += 6) {
		unsigned int kind = data[i], port = data[i + 1] & 3;
		size_t payload = data[i + 2];
		size_t length = payload + make(frame, kind, port, number[port], payload);
		number[port] += kind & TCP ? (uint32_t)payload : 1;
		if (data[i + 5] & 3) frame[data[i + 3] % length] ^= data[i + 4];
		if ((data[i + 5] & 3) == 2) complete(frame, length);
		collect(&sent, NULL, frame, length);
		join_frame(&joiner, frame, length, cut_again, &received);
	}
	join_flush(&joiner, cut_again, &received);
	same_flows();
}

static unsigned int writes;
static unsigned char super[LARGEST * FRAMES];

static void compare(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	const size_t *want = context;
	struct headers a, b;
	writes++;
	need(length == *want && headers_find(frame, length, &a) == HEADERS_FLOW);
	need(headers_find(super, length, &b) == HEADERS_FLOW && a.payload == b.payload);
	need(memcmp(frame + a.payload, super + a.payload, length - a.payload) == 0);
	need(memcmp(frame, super, (size_t)(headers_checksum(super, &a) - super)) == 0);
	need(header->gso_type == VIRTIO_NET_HDR_GSO_NONE || header->csum_start == a.transport);
}

static void join_again(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	(void)header;
	join_frame(&joiner, frame, length, compare, context);
}

static void cut_and_joined(const uint8_t *data) {
	static unsigned char copy[sizeof super];
	unsigned int kind = data[0] & ~(unsigned int)NO_SUM;
	size_t segment = data[1] + 1u, payload = 1 + (((size_t)data[2] << 8 | data[3]) % (segment * 64));
	size_t length = payload + make(super, kind, 1, data[4], payload);
	memcpy(copy, super, length);
	struct virtio_net_hdr header = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_size = (uint16_t)segment};
	header.gso_type = !(kind & TCP) ? VIRTIO_NET_HDR_GSO_UDP_L4
	                  : kind & V6   ? VIRTIO_NET_HDR_GSO_TCPV6
	                                : VIRTIO_NET_HDR_GSO_TCPV4;
	writes = 0;
	need(frame_split(&header, copy, length, join_again, &length));
	join_flush(&joiner, compare, &length);
	need(writes == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	if (size < sizeof(struct virtio_net_hdr) + 2 || size > FRAME_MAX) return 0;
	any_bytes(data, size);
	joined_and_cut(data, size);
	cut_and_joined(data);
	return 0;
}
