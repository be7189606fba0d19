#include "offload.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_PSH = 8, TCP_ACK = 16, TCP_CWR = 128 };

static uint16_t get16(const unsigned char *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static uint32_t get32(const unsigned char *at) { return (uint32_t)get16(at) << 16 | get16(at + 2); }
static void put16(unsigned char *at, uint16_t value) {
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}
static void put32(unsigned char *at, uint32_t value) {
	put16(at, (uint16_t)(value >> 16));
	put16(at + 2, (uint16_t)value);
}

uint16_t checksum(const unsigned char *data, size_t length, uint64_t sum) {
	/* Words in host order: the sum is the same but for byte order (RFC 1071, 2B). */
	uint64_t host = 0;
	while (length >= 32) {
		uint32_t words[8];
		memcpy(words, data, 32);
		for (int i = 0; i < 8; i++) host += words[i];
		data += 32;
		length -= 32;
	}
	while (length >= 2) {
		uint16_t word;
		memcpy(&word, data, 2);
		host += word;
		data += 2;
		length -= 2;
	}
	if (length) {
		uint16_t word = 0;
		memcpy(&word, data, 1);
		host += word;
	}
	while (host >> 16) host = (host & 0xffff) + (host >> 16);
	sum += ntohs((uint16_t)host);
	while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Sum of the pseudo header of TCP of `length` bytes. */
static uint64_t pseudo_sum(const unsigned char *ip, bool v6, size_t length) {
	uint64_t sum = IPPROTO_TCP + length;
	const unsigned char *addresses = v6 ? ip + 8 : ip + 12;
	for (int i = 0; i < (v6 ? 32 : 8); i += 2) sum += get16(addresses + i);
	return sum;
}

static void finish_ip(unsigned char *ip, bool v6, size_t ip_header, size_t total) {
	if (v6) {
		put16(ip + 4, (uint16_t)(total - 40));
		return;
	}
	put16(ip + 2, (uint16_t)total);
	put16(ip + 10, 0);
	put16(ip + 10, (uint16_t)~checksum(ip, ip_header, 0));
}

/* Sizes of the headers of a TCP packet in a frame; false where it is none that we handle. */
static bool tcp_headers(const unsigned char *frame, size_t length, bool *v6, size_t *ip_header, size_t *all) {
	if (length < ETHERNET_HEADER + 20 + 20) return false;
	const unsigned char *ip = frame + ETHERNET_HEADER;
	uint16_t type = get16(frame + 12);
	if (type == ETH_P_IP && ip[0] >> 4 == 4 && ip[9] == IPPROTO_TCP) {
		*v6 = false;
		*ip_header = (size_t)(ip[0] & 15) * 4;
	} else if (type == ETH_P_IPV6 && ip[0] >> 4 == 6 && ip[6] == IPPROTO_TCP) {
		*v6 = true;
		*ip_header = 40;
	} else {
		return false;
	}
	if (*ip_header < 20 || ETHERNET_HEADER + *ip_header + 20 > length) return false;
	size_t tcp_header = (size_t)(ip[*ip_header + 12] >> 4) * 4;
	*all = ETHERNET_HEADER + *ip_header + tcp_header;
	return tcp_header >= 20 && *all <= length;
}

static void cut(unsigned char *frame, size_t length, bool v6, size_t ip_header, size_t headers, size_t size,
                frame_sink *sink, void *context) {
	unsigned char *ip = frame + ETHERNET_HEADER, *tcp = ip + ip_header;
	uint32_t sequence = get32(tcp + 4);
	uint16_t identification = v6 ? 0 : get16(ip + 4);
	unsigned char flags = tcp[13], original[128];
	size_t payload = length - headers;
	memcpy(original, frame, headers);
	for (size_t done = 0, index = 0; done < payload; index++) {
		size_t here = payload - done < size ? payload - done : size;
		bool last = done + here == payload;
		/* The headers go right before their piece, over bytes that have been sent already. */
		unsigned char *at = frame + done;
		memcpy(at, original, headers);
		ip = at + ETHERNET_HEADER;
		tcp = ip + ip_header;
		if (!v6) put16(ip + 4, (uint16_t)(identification + index));
		finish_ip(ip, v6, ip_header, headers - ETHERNET_HEADER + here);
		put32(tcp + 4, sequence + (uint32_t)done);
		tcp[13] = flags;
		if (!last) tcp[13] &= (unsigned char)~(TCP_FIN | TCP_PSH);
		if (index) tcp[13] &= (unsigned char)~TCP_CWR;
		size_t tcp_length = headers - ETHERNET_HEADER - ip_header + here;
		put16(tcp + 16, 0);
		put16(tcp + 16, (uint16_t)~checksum(tcp, tcp_length, pseudo_sum(ip, v6, tcp_length)));
		sink(context, NULL, at, headers + here);
		done += here;
	}
}

bool frame_split(const struct virtio_net_hdr *header, unsigned char *frame, size_t length, frame_sink *sink,
                 void *context) {
	unsigned char gso = header->gso_type & (unsigned char)~VIRTIO_NET_HDR_GSO_ECN;
	if (length < ETHERNET_HEADER) return false;
	if (gso == VIRTIO_NET_HDR_GSO_NONE) {
		if (header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
			size_t from = header->csum_start, field = from + header->csum_offset;
			if (from >= length || field + 2 > length) return false;
			uint16_t sum = (uint16_t)~checksum(frame + from, length - from, 0);
			put16(frame + field, sum ? sum : 0xffff); // cppcheck-suppress knownConditionTrueFalse
		}
		sink(context, NULL, frame, length);
		return true;
	}
	bool v6;
	size_t ip_header, headers;
	if (gso != VIRTIO_NET_HDR_GSO_TCPV4 && gso != VIRTIO_NET_HDR_GSO_TCPV6) return false;
	if (!tcp_headers(frame, length, &v6, &ip_header, &headers) || headers == length || header->gso_size == 0) return false;
	if (headers > 128 || v6 != (gso == VIRTIO_NET_HDR_GSO_TCPV6)) return false;
	cut(frame, length, v6, ip_header, headers, header->gso_size, sink, context);
	return true;
}

/* Whether two frames belong to one TCP connection and direction; both have been found to be TCP. */
static bool same_flow(const struct join_flow *flow, const unsigned char *frame, bool v6, size_t ip_header) {
	const unsigned char *a = flow->data + ETHERNET_HEADER, *b = frame + ETHERNET_HEADER;
	if (memcmp(flow->data, frame, ETHERNET_HEADER) != 0 || a[0] >> 4 != b[0] >> 4) return false;
	if (memcmp(a + (v6 ? 8 : 12), b + (v6 ? 8 : 12), v6 ? 32 : 8) != 0) return false;
	return memcmp(a + flow->ip, b + ip_header, 4) == 0;
}

/* Whether a frame continues a flow so exactly that one header can stand for both. */
static bool continues(const struct join_flow *flow, const unsigned char *frame, size_t length, bool v6, size_t ip_header,
                      size_t headers) {
	const unsigned char *a = flow->data + ETHERNET_HEADER, *b = frame + ETHERNET_HEADER;
	const unsigned char *tcp_a = a + flow->ip, *tcp_b = b + ip_header;
	size_t payload = length - headers;
	if (flow->closed || headers != flow->header || ip_header != flow->ip || payload > flow->segment) return false;
	if (get32(tcp_b + 4) != flow->next || flow->length + payload > 65535) return false;
	if (v6 ? memcmp(a, b, 4) != 0 || a[7] != b[7] : a[1] != b[1] || a[8] != b[8] || a[6] != b[6]) return false;
	/* Acknowledgement, window and options alike; the flags may differ in PSH alone. */
	if (memcmp(tcp_a + 8, tcp_b + 8, 4) != 0 || memcmp(tcp_a + 14, tcp_b + 14, 2) != 0) return false;
	if ((tcp_a[13] & ~TCP_PSH) != (tcp_b[13] & ~TCP_PSH)) return false;
	size_t options = headers - ETHERNET_HEADER - ip_header - 20;
	return memcmp(tcp_a + 20, tcp_b + 20, options) == 0;
}

/* Plain data of an open connection, whole and with a right checksum: what may be joined. */
static bool joinable(const unsigned char *frame, size_t length, bool v6, size_t ip_header, size_t headers) {
	const unsigned char *ip = frame + ETHERNET_HEADER, *tcp = ip + ip_header;
	size_t total = v6 ? 40u + get16(ip + 4) : get16(ip + 2);
	if (total + ETHERNET_HEADER != length || headers == length || headers > 128) return false;
	if (!v6 && (ip_header != 20 || (get16(ip + 6) & 0x3fff) != 0 || checksum(ip, 20, 0) != 0xffff)) return false;
	if ((tcp[13] & ~TCP_PSH) != TCP_ACK) return false;
	size_t tcp_length = length - ETHERNET_HEADER - ip_header;
	return checksum(tcp, tcp_length, pseudo_sum(ip, v6, tcp_length)) == 0xffff;
}

static void give(struct join_flow *flow, frame_sink *sink, void *context) {
	static const struct virtio_net_hdr plain;
	flow->used = false;
	if (flow->count == 1) {
		sink(context, &plain, flow->data, flow->length);
		return;
	}
	unsigned char *ip = flow->data + ETHERNET_HEADER, *tcp = ip + flow->ip;
	bool v6 = ip[0] >> 4 == 6;
	size_t tcp_length = flow->length - ETHERNET_HEADER - flow->ip;
	finish_ip(ip, v6, flow->ip, flow->length - ETHERNET_HEADER);
	put16(tcp + 16, checksum(NULL, 0, pseudo_sum(ip, v6, tcp_length)));
	struct virtio_net_hdr header = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4,
		.hdr_len = (uint16_t)flow->header,
		.gso_size = (uint16_t)flow->segment,
		.csum_start = (uint16_t)(ETHERNET_HEADER + flow->ip),
		.csum_offset = 16,
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

static void start(struct joiner *joiner, const unsigned char *frame, size_t length, size_t ip_header, size_t headers) {
	unsigned int slot = 0;
	while (joiner->flows[slot].used) slot++;
	struct join_flow *flow = &joiner->flows[slot];
	const unsigned char *tcp = frame + ETHERNET_HEADER + ip_header;
	flow->used = true;
	flow->closed = tcp[13] & TCP_PSH;
	flow->count = 1;
	flow->header = headers;
	flow->ip = ip_header;
	flow->segment = length - headers;
	flow->length = length;
	flow->next = get32(tcp + 4) + (uint32_t)(length - headers);
	memcpy(flow->data, frame, length);
	joiner->order[joiner->used++] = slot;
}

void join_frame(struct joiner *joiner, const unsigned char *frame, size_t length, frame_sink *sink, void *context) {
	static const struct virtio_net_hdr plain;
	bool v6;
	size_t ip_header, headers;
	if (length > FRAME_MAX || !tcp_headers(frame, length, &v6, &ip_header, &headers)) {
		sink(context, &plain, frame, length);
		return;
	}
	bool may = joinable(frame, length, v6, ip_header, headers);
	for (unsigned int place = 0; place < joiner->used; place++) {
		struct join_flow *flow = &joiner->flows[joiner->order[place]];
		if (!same_flow(flow, frame, v6, ip_header)) continue;
		if (may && continues(flow, frame, length, v6, ip_header, headers)) {
			size_t payload = length - headers;
			memcpy(flow->data + flow->length, frame + headers, payload);
			flow->length += payload;
			flow->next += (uint32_t)payload;
			flow->count++;
			flow->data[ETHERNET_HEADER + ip_header + 13] |= frame[ETHERNET_HEADER + ip_header + 13] & TCP_PSH;
			flow->closed = payload < flow->segment || frame[ETHERNET_HEADER + ip_header + 13] & TCP_PSH;
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
	start(joiner, frame, length, ip_header, headers);
}
