/* Any bytes as packets from any addresses at a closed and an open gate, and as records of worlds. */
#include "gate.h"
#include "remotes.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define SELF 0x1111111111
#define REMOTE 0x2222222222

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A remote's if the first byte of its MAC is even. */
static bool authentic(void *context, size_t remote, const unsigned char *packet, size_t length) {
	(void)context;
	if (remote != 0 || length < 41) abort();
	return packet[19] % 2 == 0;
}

static bool is_node(const unsigned char *at) {
	return memcmp(at, "\x11\x11\x11\x11\x11", 5) == 0 || memcmp(at, "\x22\x22\x22\x22\x22", 5) == 0;
}

/* One packet: how it is to be seen (1), from where (2), how much later (1), its length (2), its bytes. */
static size_t one(struct gate *gate, const uint8_t *data, size_t size, int64_t *now) {
	size_t length = (size_t)data[4] << 3 | data[5] >> 5;
	if (length > size - 6) length = size - 6;
	struct sockaddr_storage from = {0};
	struct sockaddr_in6 *address = (struct sockaddr_in6 *)&from;
	address->sin6_family = data[0] & 1 ? AF_INET6 : AF_INET;
	address->sin6_port = (in_port_t)(data[1] << 8 | data[2]);
	if (data[0] & 2) gate_know(gate, &from, 1);
	*now += data[3] * 10;
	unsigned char *packet = malloc(length ? length : 1); /* so that a read beyond its end is seen */
	if (!packet) abort();
	memcpy(packet, data + 6, length);
	if (data[0] & 4 && length >= 18) memcpy(packet + 8, "\x11\x11\x11\x11\x11\x22\x22\x22\x22\x22", 10);
	bool in = gate_pass(gate, &from, packet, length, *now);
	bool fragment = length > 13 && packet[13] == 0xff;
	if (in && length < (fragment ? 17 : 28)) abort();
	if (in && !fragment && memcmp(packet + 8, packet + 13, 5) == 0) abort();
	if (in && gate_closed(gate) && (!is_node(packet + 8) || (!fragment && packet[13] != 0x22))) abort();
	free(packet);
	return 6 + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct remote_identity remote;
	planet_is_own(data, size, SELF);
	if (moon_remote(data, size, &remote) && remote.node >> 40) abort();
	if (size < 2) return 0;
	struct gate *gate = gate_new(SELF, data[1]);
	if (data[0] & 1) gate_close(gate, (const uint64_t[]){REMOTE}, 1, authentic, NULL);
	int64_t now = 1700000000000;
	for (size_t at = 2; at + 6 <= size;) at += one(gate, data + at, size - at, &now);
	gate_free(gate);
	return 0;
}
