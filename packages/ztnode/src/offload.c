#include "offload.h"

#include <netinet/in.h>
#include <string.h>

enum { TCP_FIN = 1, TCP_PSH = 8, TCP_CWR = 128 };
enum { CUT_HEADERS_MOST = 10000 }; /* no MTU has room for more */

/* The number and flags of one segment: `done` bytes of payload were before it. */
static void number_segment(unsigned char *tcp, size_t done, bool last) {
	put32(tcp + 4, get32(tcp + 4) + (uint32_t)done);
	if (!last) tcp[13] &= (unsigned char)~(TCP_FIN | TCP_PSH);
	if (done) tcp[13] &= (unsigned char)~TCP_CWR;
}

/* `pseudo` is the sum of the pseudo header without the length. */
static void cut(unsigned char *frame, size_t length, const struct headers *at, uint64_t pseudo, size_t size,
                frame_sink *sink, void *context) {
	unsigned char original[CUT_HEADERS_MOST];
	size_t payload = length - at->payload;
	memcpy(original, frame, at->payload);
	for (size_t done = 0, index = 0; done < payload; index++) {
		size_t here = payload - done < size ? payload - done : size, whole = at->payload + here;
		/* The headers go right before their piece, over bytes that have been sent already. */
		unsigned char *piece = frame + done, *ip = piece + at->ip;
		memcpy(piece, original, at->payload);
		if (!at->v6) put16(ip + 4, (uint16_t)(get16(ip + 4) + index));
		headers_set_length(piece, at, whole);
		if (at->protocol == IPPROTO_TCP) number_segment(piece + at->transport, done, done + here == payload);
		headers_set_checksum_over(piece, at, whole, pseudo + whole - at->transport);
		sink(context, NULL, piece, whole);
		done += here;
	}
}

static bool complete_checksum(const struct virtio_net_hdr *header, unsigned char *frame, size_t length) {
	size_t from = header->csum_start, field = from + header->csum_offset;
	if (from >= length || field + 2 > length) return false;
	uint16_t sum = (uint16_t)~checksum(frame + from, length - from, 0);
	put16(frame + field, sum ? sum : 0xffff); // cppcheck-suppress knownConditionTrueFalse
	return true;
}

/* Whether super-packets of this kind have these headers. */
static bool is_kind(unsigned char gso, const struct headers *at) {
	if (gso == VIRTIO_NET_HDR_GSO_UDP_L4) return at->protocol == IPPROTO_UDP;
	return at->protocol == IPPROTO_TCP && gso == (at->v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4);
}

bool frame_split(const struct virtio_net_hdr *header, unsigned char *frame, size_t length, frame_sink *sink,
                 void *context) {
	unsigned char gso = header->gso_type & (unsigned char)~VIRTIO_NET_HDR_GSO_ECN;
	if (length < ETHERNET_HEADER) return false;
	if (gso == VIRTIO_NET_HDR_GSO_NONE) {
		if (header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM && !complete_checksum(header, frame, length)) return false;
		sink(context, NULL, frame, length);
		return true;
	}
	struct headers at;
	enum header_kind kind = headers_find(frame, length, &at);
	if ((kind != HEADERS_FLOW && kind != HEADERS_ROUTED) || !is_kind(gso, &at)) return false;
	if (at.payload == length || at.payload > CUT_HEADERS_MOST || header->gso_size == 0) return false;
	uint64_t pseudo = headers_pseudo_sum(frame, &at, 0);
	if (kind == HEADERS_ROUTED) {
		/* The kernel has left the sum of the pseudo header, with the address where the packet ends, where the checksum
		 * goes. */
		if (!(header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)) return false;
		pseudo = get16(headers_checksum(frame, &at)) + (uint64_t)(uint16_t) ~(length - at.transport);
	}
	cut(frame, length, &at, pseudo, header->gso_size, sink, context);
	return true;
}
