/* Where the headers of a frame are, and the Internet checksum; no I/O. */
#ifndef ZTNODE_HEADERS_H
#define ZTNODE_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETHERNET_HEADER 14
#define HEADERS_MOST 256 /* longer ones are not joined */

enum header_kind {
	HEADERS_OTHER,   /* not IP, or a protocol without segments */
	HEADERS_UNCLEAR, /* a fragment, or incomplete: may belong to any flow of TCP or UDP */
	HEADERS_ROUTED,  /* the same as a flow, but its checksum has another address than the packet (IPv6 routing header) */
	HEADERS_FLOW     /* TCP or UDP with its whole header */
};

/* Offsets from the start of the frame. VLAN tags are part of the Ethernet header. */
struct headers {
	bool v6;
	uint8_t protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	size_t ip, transport, payload;
};

/* Find them. `headers` is set for HEADERS_FLOW and HEADERS_ROUTED only. */
enum header_kind headers_find(const unsigned char *frame, size_t length, struct headers *headers);

/* Internet checksum over data, folded, not inverted; `sum` continues an earlier one (RFC 1071). */
uint16_t checksum(const unsigned char *data, size_t length, uint64_t sum);
/* Sum of the pseudo header of TCP or UDP of `length` bytes. */
uint64_t headers_pseudo_sum(const unsigned char *frame, const struct headers *headers, size_t length);
/* Set the length of the IP packet (and of UDP) for a frame of `length` bytes, and the checksum of IPv4. */
void headers_set_length(unsigned char *frame, const struct headers *headers, size_t length);
/* Compute the checksum of TCP or UDP in a frame of `length` bytes; `pseudo` is the sum of its pseudo header. */
void headers_set_checksum_over(unsigned char *frame, const struct headers *headers, size_t length, uint64_t pseudo);
void headers_set_checksum(unsigned char *frame, const struct headers *headers, size_t length);
/* Where the checksum of TCP or UDP is. */
unsigned char *headers_checksum(unsigned char *frame, const struct headers *headers);

static inline uint16_t get16(const unsigned char *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static inline uint32_t get32(const unsigned char *at) { return (uint32_t)get16(at) << 16 | get16(at + 2); }
static inline void put16(unsigned char *at, uint16_t value) {
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}
static inline void put32(unsigned char *at, uint32_t value) {
	put16(at, (uint16_t)(value >> 16));
	put16(at + 2, (uint16_t)value);
}

#endif
