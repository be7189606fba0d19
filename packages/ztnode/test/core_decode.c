/* A packet that came too early is delivered when its time has come, by two real cores with a wire between them.
 *
 * B sends a frame to A while A's network still wants a certificate from B; then A's network turns public. The core of
 * 1.8.4 alone has decrypted the waiting packet twice by then and drops it. */
#include "core.h"
#include "decode.h"
#include "util.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NETWORK 0x8056c2e21c000001ULL
#define WIRE 256

struct end {
	core_node *core;
	struct end *other;
	char secret[512], public[512], config[512];
	unsigned char planet[512];
	size_t planet_size;
	struct sockaddr_storage address;
	int64_t deadline;
	uint64_t mac;
	int frames;
	unsigned char last_frame[64];
};

/* What is on the wire, handed over outside of the core's callbacks. */
static struct {
	struct end *to;
	unsigned int length;
	unsigned char data[1500];
} wire[WIRE];
static unsigned int wire_begin, wire_end;

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
	                   : type == CORE_STATE_NETWORK_CONFIG  ? (const void *)end->config
	                                                        : NULL;
	size_t length = !from ? 0 : type == CORE_STATE_PLANET ? end->planet_size : strlen(from);
	if (!length || length > size) return -1;
	memcpy(data, from, length);
	return (int)length;
}

static int on_send(core_node *core, void *user, void *thread, int64_t socket, const struct sockaddr_storage *to,
                   const void *data, unsigned int length, unsigned int ttl) {
	(void)core, (void)thread, (void)socket, (void)ttl;
	struct end *end = user;
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
	if (type != 0x0800 || length > sizeof end->last_frame) return;
	end->frames++;
	memcpy(end->last_frame, data, length);
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
	assert(ZT_Node_new(&end->core, end, NULL, &callbacks, now_ms()) == CORE_OK);
}

/* Let both work for so long. */
static void work(struct end *ends, int milliseconds) {
	for (int64_t until = now_ms() + milliseconds; now_ms() < until; usleep(1000)) {
		for (int i = 0; i < 2; i++)
			if (ends[i].deadline <= now_ms())
				assert(ZT_Node_processBackgroundTasks(ends[i].core, NULL, now_ms(), &ends[i].deadline) == CORE_OK);
		for (; wire_begin < wire_end; wire_begin++) {
			struct end *to = wire[wire_begin % WIRE].to;
			ZT_Node_processWirePacket(to->core, NULL, now_ms(), 1, &to->other->address, wire[wire_begin % WIRE].data,
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

static void configure(struct end *end, bool public) {
	static const char accept_all[] = {1, '\\', '0', 0}; /* the rule ACTION_ACCEPT without fields, escaped */
	snprintf(end->config, sizeof end->config,
	         "v=7\nnwid=%016llx\nts=1\nctmd=6ddd00\nr=1\nid=%.10s\nf=2\nml=20\nt=%d\nn=test\nmtu=578\nR=%s\n", NETWORK,
	         end->public, public, accept_all);
	ZT_Node_leave(end->core, NETWORK, NULL, NULL);
	assert(ZT_Node_join(end->core, NETWORK, end, NULL) == CORE_OK);
}

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	assert(decode_works());
	for (int i = 0; i < 2; i++) {
		char address[32];
		snprintf(address, sizeof address, "198.51.100.%d/9993", i + 1);
		assert(parse_address(address, '/', &ends[i].address));
		start(&ends[i]); /* makes the identity */
		ZT_Node_delete(ends[i].core);
	}
	a->other = b, b->other = a;
	make_planet(ends);
	start(a), start(b);
	configure(a, false), configure(b, true);
	work(ends, 700);

	const unsigned char frame[40] = {0x45, 0, 0, 40, [39] = 42};
	for (int i = 0; i < 3; i++)
		assert(ZT_Node_processVirtualNetworkFrame(b->core, NULL, now_ms(), NETWORK, b->mac, a->mac, 0x0800, 0, frame,
		                                          sizeof frame, NULL) == CORE_OK);
	work(ends, 1300); /* two looks at what waits */
	assert(a->frames == 0);
	configure(a, true);
	work(ends, 1300);
	printf("core_decode: %d of 3 delivered\n", a->frames);
	assert(a->frames == 3 && memcmp(a->last_frame, frame, sizeof frame) == 0);
	ZT_Node_delete(a->core);
	ZT_Node_delete(b->core);
	return 0;
}
