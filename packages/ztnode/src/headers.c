#include "headers.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

#define TAGS_MOST 2

/* Eight words of 32 bits each at a time; `length` is a multiple of that. */
typedef uint64_t quads __attribute__((vector_size(32)));
static inline __attribute__((always_inline)) uint64_t add_words(const unsigned char *data, size_t length) {
	quads even = {0}, odd = {0};
	for (const unsigned char *end = data + length; data < end; data += sizeof(quads)) {
		quads words;
		memcpy(&words, data, sizeof words);
		even += words & 0xffffffff;
		odd += words >> 32;
	}
	even += odd;
	return even[0] + even[1] + even[2] + even[3];
}
__attribute__((target("avx2"))) static uint64_t add_words_avx2(const unsigned char *data, size_t length) {
	return add_words(data, length);
}
static uint64_t add_words_sse2(const unsigned char *data, size_t length) { return add_words(data, length); }

uint16_t checksum(const unsigned char *data, size_t length, uint64_t sum) {
	/* Words in host order: the sum is the same but for byte order (RFC 1071, 2B). */
	size_t whole = length - length % sizeof(quads);
	uint64_t host = 0;
	if (whole) {
		host = __builtin_cpu_supports("avx2") ? add_words_avx2(data, whole) : add_words_sse2(data, whole);
		data += whole;
		length -= whole;
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

uint64_t headers_pseudo_sum(const unsigned char *frame, const struct headers *headers, size_t length) {
	uint64_t sum = headers->protocol + length;
	const unsigned char *addresses = frame + headers->ip + (headers->v6 ? 8 : 12);
	for (int i = 0; i < (headers->v6 ? 32 : 8); i += 2) sum += get16(addresses + i);
	return sum;
}

void headers_set_length(unsigned char *frame, const struct headers *headers, size_t length) {
	unsigned char *ip = frame + headers->ip;
	if (headers->protocol == IPPROTO_UDP) put16(frame + headers->transport + 4, (uint16_t)(length - headers->transport));
	if (headers->v6) {
		put16(ip + 4, (uint16_t)(length - headers->ip - 40));
		return;
	}
	put16(ip + 2, (uint16_t)(length - headers->ip));
	put16(ip + 10, 0);
	put16(ip + 10, (uint16_t)~checksum(ip, headers->transport - headers->ip, 0));
}

unsigned char *headers_checksum(unsigned char *frame, const struct headers *headers) {
	return frame + headers->transport + (headers->protocol == IPPROTO_TCP ? 16 : 6);
}

void headers_set_checksum_over(unsigned char *frame, const struct headers *headers, size_t length, uint64_t pseudo) {
	unsigned char *at = headers_checksum(frame, headers);
	put16(at, 0);
	uint16_t sum = (uint16_t)~checksum(frame + headers->transport, length - headers->transport, pseudo);
	/* Zero says that there is none. */
	put16(at, sum || headers->protocol == IPPROTO_TCP ? sum : 0xffff); // cppcheck-suppress knownConditionTrueFalse
}

void headers_set_checksum(unsigned char *frame, const struct headers *headers, size_t length) {
	headers_set_checksum_over(frame, headers, length, headers_pseudo_sum(frame, headers, length - headers->transport));
}

/* Skips options of IPv6 for the hop or the destination, and where it is routed. */
static enum header_kind find_ip6(const unsigned char *frame, size_t length, struct headers *headers) {
	size_t at = headers->ip + 40;
	if (at > length || frame[headers->ip] >> 4 != 6) return HEADERS_UNCLEAR;
	uint8_t next = frame[headers->ip + 6];
	bool routed = false;
	while (next == IPPROTO_HOPOPTS || next == IPPROTO_DSTOPTS || next == IPPROTO_ROUTING) {
		if (at + 8 > length) return HEADERS_UNCLEAR;
		routed |= next == IPPROTO_ROUTING;
		next = frame[at];
		at += (frame[at + 1] + 1u) * 8;
	}
	headers->v6 = true;
	headers->protocol = next;
	headers->transport = at;
	return next == IPPROTO_FRAGMENT ? HEADERS_UNCLEAR : routed ? HEADERS_ROUTED : HEADERS_FLOW;
}

static enum header_kind find_ip4(const unsigned char *frame, size_t length, struct headers *headers) {
	const unsigned char *ip = frame + headers->ip;
	if (headers->ip + 20 > length || ip[0] >> 4 != 4 || (ip[0] & 15) < 5) return HEADERS_UNCLEAR;
	headers->v6 = false;
	headers->protocol = ip[9];
	headers->transport = headers->ip + (size_t)(ip[0] & 15) * 4;
	return (get16(ip + 6) & 0x3fff) != 0 ? HEADERS_UNCLEAR : HEADERS_FLOW;
}

enum header_kind headers_find(const unsigned char *frame, size_t length, struct headers *headers) {
	size_t at = ETHERNET_HEADER;
	if (length < at) return HEADERS_OTHER;
	uint16_t type = get16(frame + 12);
	for (int tags = 0; (type == ETH_P_8021Q || type == ETH_P_8021AD) && tags < TAGS_MOST; tags++) {
		if (at + 4 > length) return HEADERS_OTHER;
		type = get16(frame + at + 2);
		at += 4;
	}
	if (type != ETH_P_IP && type != ETH_P_IPV6) return HEADERS_OTHER;
	headers->ip = at;
	enum header_kind kind = type == ETH_P_IP ? find_ip4(frame, length, headers) : find_ip6(frame, length, headers);
	if (kind == HEADERS_UNCLEAR) return kind;
	if (headers->protocol != IPPROTO_TCP && headers->protocol != IPPROTO_UDP) return HEADERS_OTHER;
	size_t least = headers->protocol == IPPROTO_TCP ? 20 : 8;
	if (headers->transport + least > length) return HEADERS_UNCLEAR;
	if (headers->protocol == IPPROTO_TCP) least = (size_t)(frame[headers->transport + 12] >> 4) * 4;
	headers->payload = headers->transport + least;
	return (headers->protocol == IPPROTO_TCP && least < 20) || headers->payload > length ? HEADERS_UNCLEAR : kind;
}
