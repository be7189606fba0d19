#include "offload.h"

#include <netinet/in.h>
#include <string.h>

#define DATAGRAMS_MOST 64 /* as many as the kernel itself joins */
#define IP_MOST 65535

enum { TCP_PSH = 8, TCP_ACK = 16, TCP_ECE = 64 };
enum { TCP_RESERVED = 14 }; /* of the byte before, which has AE, too */
enum { IP4_DF = 0x40, IP4_CE = 3, IP6_CE = 0x30 };

static const struct virtio_net_hdr plain;

/* Whether a frame belongs to a flow and direction that waits. */
static bool same_flow(const struct join_flow *flow, const unsigned char *frame, const struct headers *at) {
	const struct headers *own = &flow->at;
	if (own->v6 != at->v6 || own->protocol != at->protocol || own->ip != at->ip) return false;
	if (memcmp(flow->data + own->transport, frame + at->transport, 4) != 0) return false;
	size_t addresses = at->ip + (at->v6 ? 8 : 12);
	return memcmp(flow->data + addresses, frame + addresses, at->v6 ? 32 : 8) == 0 &&
	       memcmp(flow->data, frame, at->ip) == 0;
}

/* Acknowledgement, window, urgent pointer and options alike, the next number; the flags may differ in PSH alone. */
static bool tcp_continues(const struct join_flow *flow, const unsigned char *frame) {
	const unsigned char *a = flow->data + flow->at.transport, *b = frame + flow->at.transport;
	if (get32(b + 4) != flow->next || memcmp(a + 8, b + 8, 4) != 0) return false;
	if (memcmp(a + 14, b + 14, 2) != 0 || memcmp(a + 18, b + 18, 2) != 0) return false;
	if (a[12] != b[12] || (a[13] & ~TCP_PSH) != (b[13] & ~TCP_PSH)) return false;
	return memcmp(a + 20, b + 20, flow->at.payload - flow->at.transport - 20) == 0;
}

/* Whether one IP header can stand for both: the kernel counts the identification up when it cuts, which matters only
 * where a router may fragment (RFC 6864). */
static bool ip_continues(const struct join_flow *flow, const unsigned char *frame) {
	const unsigned char *a = flow->data + flow->at.ip, *b = frame + flow->at.ip;
	if (flow->at.v6) return memcmp(a, b, 4) == 0 && a[7] == b[7];
	if (a[1] != b[1] || a[8] != b[8] || a[6] != b[6]) return false;
	return a[6] & IP4_DF || get16(b + 4) == (uint16_t)(get16(a + 4) + flow->count);
}

/* Whether a frame continues a flow so exactly that one header can stand for both. */
static bool continues(const struct join_flow *flow, const unsigned char *frame, size_t length, const struct headers *at) {
	size_t payload = length - at->payload;
	if (flow->closed || at->payload != flow->at.payload || at->transport != flow->at.transport) return false;
	if (payload > flow->segment || flow->length - at->ip + payload > IP_MOST) return false;
	if (!ip_continues(flow, frame)) return false;
	return at->protocol == IPPROTO_TCP ? tcp_continues(flow, frame) : flow->count < DATAGRAMS_MOST;
}

/* TCP that is data and no more. The kernel gives AE and ECE to each segment when it cuts, and CWR to the first alone; with
 * Accurate ECN the three are a counter (RFC 9768), so that most data carries some of them. What was marked on the way (CE)
 * is not joined: the receiver counts it, and to the kernel a packet from a TAP is one, whatever its size. */
static bool tcp_joinable(const unsigned char *ip, const unsigned char *tcp, bool v6) {
	bool marked = v6 ? (ip[1] & IP6_CE) == IP6_CE : (ip[1] & IP4_CE) == IP4_CE;
	return !marked && !(tcp[12] & TCP_RESERVED) && (tcp[13] & ~(TCP_PSH | TCP_ECE)) == TCP_ACK;
}

/* Plain data to one host, whole and with a right checksum: what may be joined. Datagrams for many hosts are not: routers
 * drop those that are larger than the MTU. */
static bool joinable(const struct joiner *joiner, const unsigned char *frame, size_t length, const struct headers *at) {
	const unsigned char *ip = frame + at->ip, *transport = frame + at->transport;
	size_t total = at->ip + (at->v6 ? 40u + get16(ip + 4) : get16(ip + 2)), covered = length - at->transport;
	if (total != length || at->payload == length || at->payload > HEADERS_MOST) return false;
	if (at->transport - at->ip != (at->v6 ? 40 : 20) || (!at->v6 && checksum(ip, 20, 0) != 0xffff)) return false;
	if (at->protocol == IPPROTO_TCP) {
		if (!joiner->tcp || !tcp_joinable(ip, transport, at->v6)) return false;
	} else {
		if (!joiner->udp || frame[0] & 1 || get16(transport + 4) != covered || get16(transport + 6) == 0) return false;
	}
	return checksum(transport, covered, headers_pseudo_sum(frame, at, covered)) == 0xffff;
}

static void give(struct join_flow *flow, frame_sink *sink, void *context) {
	const struct headers *at = &flow->at;
	flow->used = false;
	if (flow->count == 1) {
		sink(context, &plain, flow->data, flow->length);
		return;
	}
	unsigned char *sum = headers_checksum(flow->data, at);
	headers_set_length(flow->data, at, flow->length);
	put16(sum, checksum(NULL, 0, headers_pseudo_sum(flow->data, at, flow->length - at->transport)));
	unsigned char tcp = at->v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
	struct virtio_net_hdr header = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = at->protocol == IPPROTO_TCP ? tcp : VIRTIO_NET_HDR_GSO_UDP_L4,
		.hdr_len = (uint16_t)at->payload,
		.gso_size = (uint16_t)flow->segment,
		.csum_start = (uint16_t)at->transport,
		.csum_offset = (uint16_t)(sum - flow->data - at->transport),
	};
	sink(context, &header, flow->data, flow->length);
}

static void give_one(struct joiner *joiner, unsigned int place, frame_sink *sink, void *context) {
	give(&joiner->flows[joiner->order[place]], sink, context);
	memmove(&joiner->order[place], &joiner->order[place + 1], (joiner->used - place - 1) * sizeof joiner->order[0]);
	joiner->used--;
}

void join_flush(struct joiner *joiner, frame_sink *sink, void *context) {
	while (joiner->used) give_one(joiner, 0, sink, context);
}

/* What of TCP continues the data: its number, and nothing after a PSH. */
static void note_tcp(struct join_flow *flow, const unsigned char *tcp, size_t payload) {
	flow->next = get32(tcp + 4) + (uint32_t)payload;
	flow->data[flow->at.transport + 13] |= tcp[13] & TCP_PSH;
	flow->closed |= (tcp[13] & TCP_PSH) != 0;
}

static void start(struct joiner *joiner, const unsigned char *frame, size_t length, const struct headers *at) {
	unsigned int slot = 0;
	while (joiner->flows[slot].used) slot++;
	struct join_flow *flow = &joiner->flows[slot];
	flow->used = true;
	flow->closed = false;
	flow->count = 1;
	flow->at = *at;
	flow->segment = length - at->payload;
	flow->length = length;
	memcpy(flow->data, frame, length);
	if (at->protocol == IPPROTO_TCP) note_tcp(flow, frame + at->transport, flow->segment);
	joiner->order[joiner->used++] = slot;
}

static void append(struct join_flow *flow, const unsigned char *frame, size_t length) {
	size_t payload = length - flow->at.payload;
	memcpy(flow->data + flow->length, frame + flow->at.payload, payload);
	flow->length += payload;
	flow->count++;
	flow->closed = payload < flow->segment;
	if (flow->at.protocol == IPPROTO_TCP) note_tcp(flow, frame + flow->at.transport, payload);
}

void join_frame(struct joiner *joiner, const unsigned char *frame, size_t length, frame_sink *sink, void *context) {
	struct headers at;
	enum header_kind kind = length > FRAME_MAX ? HEADERS_OTHER : headers_find(frame, length, &at);
	if (kind != HEADERS_FLOW) {
		/* A fragment must not overtake the datagrams before it, and has no ports that say whose it is. */
		if (kind != HEADERS_OTHER) join_flush(joiner, sink, context);
		sink(context, &plain, frame, length);
		return;
	}
	bool may = joinable(joiner, frame, length, &at);
	for (unsigned int place = 0; place < joiner->used; place++) {
		struct join_flow *flow = &joiner->flows[joiner->order[place]];
		if (!same_flow(flow, frame, &at)) continue;
		if (may && continues(flow, frame, length, &at)) {
			append(flow, frame, length);
			return;
		}
		give_one(joiner, place, sink, context);
		break;
	}
	if (!may) {
		sink(context, &plain, frame, length);
		return;
	}
	if (joiner->used == JOIN_FLOWS) give_one(joiner, 0, sink, context);
	start(joiner, frame, length, &at);
}
