/* Two real cores, each a root of one planet that has both, with a wire between them; their time is that of ztnode, by a
 * wall clock with an error. */
#ifndef ZTNODE_TEST_PAIR_H
#define ZTNODE_TEST_PAIR_H

#include "core.h"
#include "decode.h"
#include "util.h"

#include <assert.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NETWORK test_network
#define WIRE 256
#define ELSEWHERE 7777 /* a port */

static unsigned long long test_network = 0x8056c2e21c000001ULL; /* of a controller that is not there */

struct end {
	core_node *core;
	struct end *other;
	char secret[512], public[512], config[2048];
	unsigned char planet[512];
	size_t planet_size;
	unsigned char moon[512];
	size_t moon_size;
	struct sockaddr_storage address;
	int64_t deadline;
	uint64_t mac;
	int frames;
	unsigned int last_length;
	unsigned char last_frame[64];
	uint64_t last_hello; /* number of the last packet sent that was one */
	int elsewhere;       /* packets sent to ELSEWHERE */
	int searches;        /* those that have the length of a WHOIS for one node */
};

/* What is on the wire, handed over outside of the core's callbacks. */
static struct {
	struct end *to;
	unsigned int length;
	unsigned char data[1500];
} wire[WIRE];
static unsigned int wire_begin, wire_end;
static int64_t clock_error; /* of the wall clock of both */

static int64_t core_time(void) {
	static _Atomic int64_t lead = INT64_MIN;
	return never_back(&lead, wall_ms() + clock_error, clock_ms());
}

static void on_put(core_node *core, void *user, void *thread, int type, const uint64_t id[2], const void *data,
                   int length) {
	(void)core, (void)thread, (void)id;
	struct end *end = user;
	char *into = type == CORE_STATE_IDENTITY_SECRET ? end->secret : type == CORE_STATE_IDENTITY_PUBLIC ? end->public : NULL;
	if (into && length > 0 && length < 512) memcpy(into, data, (size_t)length), into[length] = 0;
}

static int on_get(core_node *core, void *user, void *thread, int type, const uint64_t id[2], void *data,
                  unsigned int size) {
	(void)core, (void)thread, (void)id;
	struct end *end = user;
	const void *from = type == CORE_STATE_IDENTITY_SECRET   ? (const void *)end->secret
	                   : type == CORE_STATE_IDENTITY_PUBLIC ? (const void *)end->public
	                   : type == CORE_STATE_PLANET          ? (const void *)end->planet
	                   : type == CORE_STATE_MOON            ? (const void *)end->moon
	                   : type == CORE_STATE_NETWORK_CONFIG  ? (const void *)end->config
	                                                        : NULL;
	size_t length = !from                       ? 0
	                : type == CORE_STATE_PLANET ? end->planet_size
	                : type == CORE_STATE_MOON   ? end->moon_size
	                                            : strlen(from);
	if (!length || length > size) return -1;
	memcpy(data, from, length);
	return (int)length;
}

static int on_send(core_node *core, void *user, void *thread, int64_t socket, const struct sockaddr_storage *to,
                   const void *data, unsigned int length, unsigned int ttl) {
	(void)core, (void)thread, (void)socket, (void)ttl;
	struct end *end = user;
	const unsigned char *bytes = data;
	if (length > 27 && bytes[13] != 0xff && (bytes[18] & 0x38) == 0 && bytes[27] == 1)
		end->last_hello = number_at(bytes, 8);
	end->elsewhere += address_port(to) == ELSEWHERE;
	end->searches += length == 28 + 5;
	if (!end->other || !same_address(to, &end->other->address) || length > sizeof wire->data) return -1;
	wire[wire_end % WIRE].to = end->other;
	wire[wire_end % WIRE].length = length;
	memcpy(wire[wire_end % WIRE].data, data, length);
	wire_end++;
	return 0;
}

static void on_frame(core_node *core, void *user, void *thread, uint64_t nwid, void **where, uint64_t source,
                     uint64_t destination, unsigned int type, unsigned int vlan, const void *data, unsigned int length) {
	(void)core, (void)thread, (void)nwid, (void)where, (void)source, (void)destination, (void)vlan;
	struct end *end = user;
	if (type != 0x0800) return;
	end->frames++;
	end->last_length = length;
	memcpy(end->last_frame, data, length < sizeof end->last_frame ? length : sizeof end->last_frame);
}

static int on_network(core_node *core, void *user, void *thread, uint64_t nwid, void **where, int operation,
                      const struct core_network *config) {
	(void)core, (void)thread, (void)nwid, (void)where, (void)operation;
	((struct end *)user)->mac = config->mac;
	return 0;
}

static void on_event(core_node *core, void *user, void *thread, int event, const void *data) {
	(void)core, (void)user, (void)thread, (void)event, (void)data;
}

static void start(struct end *end) {
	static const struct core_callbacks callbacks = {0, on_put, on_get, on_send, on_frame, on_network, on_event, NULL, NULL};
	assert(ZT_Node_new(&end->core, end, NULL, &callbacks, core_time()) == CORE_OK);
}

/* Let both work for so long. */
static void work(struct end *ends, int milliseconds) {
	for (int64_t until = clock_ms() + milliseconds; clock_ms() < until; usleep(1000)) {
		for (struct end *end = ends; end < ends + 2; end++) {
			int64_t time = core_time();
			if (end->deadline <= time)
				assert(ZT_Node_processBackgroundTasks(end->core, NULL, time, &end->deadline) == CORE_OK);
		}
		for (; wire_begin < wire_end; wire_begin++) {
			struct end *to = wire[wire_begin % WIRE].to;
			ZT_Node_processWirePacket(to->core, NULL, core_time(), 1, &to->other->address, wire[wire_begin % WIRE].data,
			                          wire[wire_begin % WIRE].length, NULL);
		}
	}
}

static size_t put_identity(unsigned char *at, const char *public) {
	char digits[3] = {0};
	size_t length = 0;
	uint64_t byte;
	for (const char *from = public; from < public + 10; from += 2, length++)
		memcpy(digits, from, 2), assert(parse_hex(digits, 2, &byte)), at[length] = (unsigned char)byte;
	at[length++] = 0;
	for (const char *from = public + 13; from < public + 13 + 128; from += 2, length++)
		memcpy(digits, from, 2), assert(parse_hex(digits, 2, &byte)), at[length] = (unsigned char)byte;
	at[length++] = 0;
	return length;
}

/* A planet with both as roots, each at its address. */
static void make_planet(struct end *ends) {
	unsigned char *planet = ends[0].planet;
	size_t size = 1 + 8 + 8 + 64 + 96;
	planet[0] = 1, planet[8] = 77, planet[16] = 1;
	memset(planet + 17, 5, 64);
	planet[size++] = 2;
	for (int i = 0; i < 2; i++) {
		size += put_identity(planet + size, ends[i].public);
		const struct sockaddr_in *address = (const struct sockaddr_in *)&ends[i].address;
		planet[size++] = 1, planet[size++] = 4;
		memcpy(planet + size, &address->sin_addr, 4), memcpy(planet + size + 4, &address->sin_port, 2), size += 6;
	}
	ends[0].planet_size = ends[1].planet_size = size;
	memcpy(ends[1].planet, planet, size);
}

static void join(struct end *end) {
	ZT_Node_leave(end->core, NETWORK, NULL, NULL);
	assert(ZT_Node_join(end->core, NETWORK, end, NULL) == CORE_OK);
}

static void configure(struct end *end, bool public, unsigned int mtu) {
	static const char accept_all[] = {1, '\\', '0', 0}; /* the rule ACTION_ACCEPT without fields, escaped */
	snprintf(end->config, sizeof end->config,
	         "v=7\nnwid=%016llx\nts=1\nctmd=6ddd00\nr=1\nid=%.10s\nf=2\nml=20\nt=%d\nn=test\nmtu=%x\nR=%s\n",
	         (unsigned long long)NETWORK, end->public, public, mtu, accept_all);
	join(end);
}

static inline void send_frame(struct end *end, uint64_t source, uint64_t destination, const void *frame,
                              unsigned int length) {
	assert(ZT_Node_processVirtualNetworkFrame(end->core, NULL, core_time(), NETWORK, source, destination, 0x0800, 0, frame,
	                                          length, NULL) == CORE_OK);
}

static void hung(int signal_number) {
	static const char line[] = "the core hangs\n";
	(void)signal_number;
	(void)!write(STDERR_FILENO, line, sizeof line - 1);
	_exit(1);
}

/* Both are there; they know each other after the first work. A core that hangs fails the test. */
static void pair_begin(struct end *ends) {
	signal(SIGALRM, hung);
	alarm(60);
	for (int i = 0; i < 2; i++) {
		char address[32];
		snprintf(address, sizeof address, "198.51.100.%d/9993", i + 1);
		assert(parse_address(address, '/', &ends[i].address));
		start(&ends[i]); /* makes the identity */
		ZT_Node_delete(ends[i].core);
	}
	ends[0].other = &ends[1], ends[1].other = &ends[0];
	make_planet(ends);
	start(&ends[0]), start(&ends[1]);
}

static inline void pair_end(struct end *ends) {
	ZT_Node_delete(ends[0].core);
	ZT_Node_delete(ends[1].core);
}

#endif
