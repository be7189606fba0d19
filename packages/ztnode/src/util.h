/* Small things that several parts use. */
#ifndef ZTNODE_UTIL_H
#define ZTNODE_UTIL_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Milliseconds of the wall clock. */
int64_t wall_ms(void);
/* Milliseconds that nobody sets, of CLOCK_MONOTONIC. */
int64_t clock_ms(void);
/* Milliseconds of the core's clock: the wall clock, but when that is set back this one goes on, ahead of it from then. The
 * core, asked with a time before the last one, would take its paths for alive and rest from its work until that time has
 * come again. Any thread. */
int64_t now_ms(void);
/* Milliseconds of the wall clock as it is set now, of a time of the core's clock; 0, which is never, stays. */
int64_t wall_of(int64_t time);
/* What now_ms does, with the most that the wall clock was ahead of the other so far (INT64_MIN at first). */
int64_t never_back(_Atomic int64_t *lead, int64_t wall, int64_t clock);

/* The device of an address, which getifaddrs calls by the address's label: eth0:1 is on eth0. */
void device_of_address(const char *name, char device[IF_NAMESIZE]);

/* A number of so many bytes, the highest first; at most eight. */
uint64_t number_at(const unsigned char *at, int bytes);
void put_number(unsigned char *at, uint64_t number, int bytes);

/* One line to the journal. Never give it key material. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whole file into a new, zero-terminated buffer (free it); NULL with errno set. Files over `limit` bytes are
 * refused with EFBIG. */
char *read_file(const char *path, size_t limit, size_t *length);

/* The file appears whole or not at all, with this mode. False with errno set. */
bool write_file(const char *path, const void *data, size_t length, unsigned int mode);
/* It is on the disk then, for what cannot be made again: after a power cut a new file may be empty else. */
bool write_lasting(const char *path, const void *data, size_t length, unsigned int mode);

/* Parse exactly `digits` hex digits; false for anything else. */
bool parse_hex(const char *text, size_t digits, uint64_t *value);

/* "address/port" or plain address (port 0) and back. */
bool parse_address(const char *text, char separator, struct sockaddr_storage *address);
void format_address(const struct sockaddr_storage *address, char *text, size_t size);

/* Bytes of a sockaddr_in or sockaddr_in6. */
socklen_t address_size(const struct sockaddr_storage *address);
uint16_t address_port(const struct sockaddr_storage *address);
bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b); /* port left out */
bool same_endpoint(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Order of things that begin with the address of a node, for qsort and bsearch. */
int by_node(const void *one, const void *other);

/* An address prefix such as 10.14.0.0/28. */
struct prefix {
	int family;
	unsigned int length;
	unsigned char bytes[16];
};
bool parse_prefix(const char *text, struct prefix *prefix);
bool prefix_contains(const struct prefix *prefix, const struct sockaddr_storage *address);

#endif
