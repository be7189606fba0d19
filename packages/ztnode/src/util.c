#include "util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int64_t milliseconds(clockid_t clock) {
	struct timespec now;
	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t wall_ms(void) { return milliseconds(CLOCK_REALTIME); }

int64_t clock_ms(void) { return milliseconds(CLOCK_MONOTONIC); }

int64_t never_back(_Atomic int64_t *lead, int64_t wall, int64_t clock) {
	int64_t most = atomic_load_explicit(lead, memory_order_relaxed), ahead = wall - clock;
	while (ahead > most &&
	       !atomic_compare_exchange_weak_explicit(lead, &most, ahead, memory_order_relaxed, memory_order_relaxed))
		continue;
	return clock + (ahead > most ? ahead : most);
}

int64_t now_ms(void) {
	static _Atomic int64_t lead = INT64_MIN;
	int64_t wall = wall_ms(); /* first: a pause before the next line must not look like a clock that is ahead */
	return never_back(&lead, wall, clock_ms());
}

int64_t wall_of(int64_t time) { return time ? time - (now_ms() - wall_ms()) : 0; }

void device_of_address(const char *name, char device[IF_NAMESIZE]) {
	snprintf(device, IF_NAMESIZE, "%.*s", (int)strcspn(name, ":"), name);
}

uint64_t number_at(const unsigned char *at, int bytes) {
	uint64_t number = 0;
	for (int i = 0; i < bytes; i++) number = number << 8 | at[i];
	return number;
}

void put_number(unsigned char *at, uint64_t number, int bytes) {
	for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(number >> 8 * (bytes - 1 - i));
}

void say(const char *format, ...) {
	char line[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	fprintf(stderr, "%s\n", line);
}

char *read_file(const char *path, size_t limit, size_t *length) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) return NULL;
	struct stat info;
	char *data = NULL;
	if (fstat(fd, &info) < 0) goto out;
	if (!S_ISREG(info.st_mode)) {
		errno = EINVAL;
		goto out;
	}
	if ((uint64_t)info.st_size > limit) {
		errno = EFBIG;
		goto out;
	}
	data = malloc((size_t)info.st_size + 1);
	if (!data) goto out;
	size_t have = 0;
	while (have < (size_t)info.st_size) {
		ssize_t got = read(fd, data + have, (size_t)info.st_size - have);
		if (got < 0 && errno == EINTR) continue;
		if (got < 0) {
			free(data);
			data = NULL;
			goto out;
		}
		if (got == 0) break;
		have += (size_t)got;
	}
	data[have] = 0;
	if (length) *length = have;
out:;
	int saved = errno;
	close(fd);
	errno = saved;
	return data;
}

static bool write_all(int fd, const char *from, size_t length) {
	while (length) {
		ssize_t put = write(fd, from, length);
		if (put < 0 && errno == EINTR) continue;
		if (put <= 0) return false;
		from += put;
		length -= (size_t)put;
	}
	return true;
}

static void flush_directory(const char *path) {
	char directory[4096];
	snprintf(directory, sizeof directory, "%s", path);
	int fd = open(dirname(directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) return;
	fsync(fd);
	close(fd);
}

static bool replace_file(const char *path, const void *data, size_t length, unsigned int mode, bool lasting) {
	char temporary[4096];
	if (snprintf(temporary, sizeof temporary, "%s.new", path) >= (int)sizeof temporary) {
		errno = ENAMETOOLONG;
		return false;
	}
	int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0) return false;
	bool good = write_all(fd, data, length) && (!lasting || fsync(fd) == 0);
	int saved = errno;
	if (close(fd) < 0 && good) good = false, saved = errno;
	if (good && rename(temporary, path) < 0) good = false, saved = errno;
	if (!good) unlink(temporary);
	else if (lasting) flush_directory(path);
	errno = saved;
	return good;
}

bool write_file(const char *path, const void *data, size_t length, unsigned int mode) {
	return replace_file(path, data, length, mode, false);
}

bool write_lasting(const char *path, const void *data, size_t length, unsigned int mode) {
	return replace_file(path, data, length, mode, true);
}

bool parse_hex(const char *text, size_t digits, uint64_t *value) {
	uint64_t result = 0;
	for (size_t i = 0; i < digits; i++) {
		char c = text[i];
		unsigned int digit;
		if (c >= '0' && c <= '9') digit = (unsigned int)(c - '0');
		else if (c >= 'a' && c <= 'f') digit = (unsigned int)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'F') digit = (unsigned int)(c - 'A') + 10;
		else return false;
		result = result << 4 | digit;
	}
	*value = result;
	return true;
}

static bool parse_number(const char *text, unsigned long highest, unsigned long *value) {
	if (*text < '0' || *text > '9' || strlen(text) > 5) return false;
	char *end;
	*value = strtoul(text, &end, 10);
	return *end == 0 && *value <= highest;
}

bool parse_address(const char *text, char separator, struct sockaddr_storage *address) {
	char copy[80];
	if (strlen(text) >= sizeof copy) return false;
	strcpy(copy, text);
	unsigned long port = 0;
	char *slash = strrchr(copy, separator);
	if (slash) {
		*slash = 0;
		if (!parse_number(slash + 1, 65535, &port)) return false;
	}
	memset(address, 0, sizeof *address);
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
	if (inet_pton(AF_INET, copy, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		return true;
	}
	if (inet_pton(AF_INET6, copy, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		return true;
	}
	return false;
}

static const void *address_bytes(const struct sockaddr_storage *address) {
	if (address->ss_family == AF_INET) return &((const struct sockaddr_in *)address)->sin_addr;
	return &((const struct sockaddr_in6 *)address)->sin6_addr;
}

socklen_t address_size(const struct sockaddr_storage *address) {
	return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

uint16_t address_port(const struct sockaddr_storage *address) {
	if (address->ss_family == AF_INET) return ntohs(((const struct sockaddr_in *)address)->sin_port);
	if (address->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
	return 0;
}

void format_address(const struct sockaddr_storage *address, char *text, size_t size) {
	char host[INET6_ADDRSTRLEN] = "";
	if (address->ss_family == AF_INET || address->ss_family == AF_INET6)
		inet_ntop(address->ss_family, address_bytes(address), host, sizeof host);
	snprintf(text, size, "%s/%u", host, address_port(address));
}

bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
	if (a->ss_family != b->ss_family) return false;
	return memcmp(address_bytes(a), address_bytes(b), a->ss_family == AF_INET ? 4 : 16) == 0;
}

bool same_endpoint(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
	return same_address(a, b) && address_port(a) == address_port(b);
}

bool parse_prefix(const char *text, struct prefix *prefix) {
	struct sockaddr_storage address;
	if (!strchr(text, '/') || !parse_address(text, '/', &address)) return false;
	unsigned int bits = address.ss_family == AF_INET ? 32 : 128;
	prefix->family = address.ss_family;
	prefix->length = address_port(&address);
	if (prefix->length > bits) return false;
	memset(prefix->bytes, 0, sizeof prefix->bytes);
	memcpy(prefix->bytes, address_bytes(&address), bits / 8);
	return true;
}

bool prefix_contains(const struct prefix *prefix, const struct sockaddr_storage *address) {
	if (address->ss_family != prefix->family) return false;
	const unsigned char *bytes = address_bytes(address);
	unsigned int whole = prefix->length / 8, rest = prefix->length % 8;
	if (memcmp(bytes, prefix->bytes, whole) != 0) return false;
	return rest == 0 || ((bytes[whole] ^ prefix->bytes[whole]) & (0xff00 >> rest) & 0xff) == 0;
}

int by_node(const void *one, const void *other) {
	uint64_t a, b;
	memcpy(&a, one, sizeof a), memcpy(&b, other, sizeof b);
	return (a > b) - (a < b);
}
