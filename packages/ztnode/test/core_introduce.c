/* A packet that claims to be from B and for B, and that anybody can send: A, which relays for B, introduces B to itself,
 * for which the core alone takes one lock twice. And packets for B of ever new nodes, each of which the core alone keeps.
 * Then who is told of what: where a peer is configured and another is not, the core alone tells neither.
 */
#include "introduce.h"
#include "pair.h"
#include "scope.h"

#include <malloc.h>

enum { NODES = 20000 };

static struct sockaddr_storage at(const char *text) {
	struct sockaddr_storage address;
	assert(parse_address(text, '/', &address));
	return address;
}

/* A packet that A receives and relays to B. */
static void relay(struct end *ends, uint64_t source) {
	unsigned char packet[28] = {0};
	struct sockaddr_storage anybody = at("203.0.113.9/9993");
	put_number(packet + 8, ZT_Node_address(ends[1].core), 5);
	put_number(packet + 13, source, 5);
	ZT_Node_processWirePacket(ends[0].core, NULL, core_time(), 1, &anybody, packet, sizeof packet, NULL);
	wire_begin = wire_end;
}

static bool is_configured(void *context, const struct sockaddr_storage *address) {
	(void)context;
	return address_port(address) == ELSEWHERE;
}

struct place {
	const char *address;
	int64_t ago; /* ms since it was heard of */
	int preferred;
};

static const struct place *one(const char *address, int64_t ago) {
	static struct place made[2];
	made[0] = (struct place){address, ago, 1};
	return made;
}

static struct core_peer peer(uint64_t node, const struct place *places) {
	struct core_peer made = {.address = node};
	for (; made.path_count < 2 && places[made.path_count].address; made.path_count++) {
		const struct place *place = &places[made.path_count];
		struct core_path *path = &made.paths[made.path_count];
		*path = (struct core_path){.address = at(place->address), .preferred = place->preferred};
		path->last_receive = (uint64_t)(core_time() - place->ago);
	}
	return made;
}

/* -- what is sent, in place of Switch::send */

void __wrap__ZN8ZeroTier6Switch4sendEPvRNS_6PacketEbi(void *own, void *thread, void *packet, bool encrypt, int32_t flow);

enum { ONE = 0x10000001, OTHER = 0x20000002, SELF = 3 };
static struct sent {
	uint64_t whom, of;
	struct sockaddr_storage place;
} sent[8];
static unsigned int sent_count;

void __wrap__ZN8ZeroTier6Switch4sendEPvRNS_6PacketEbi(void *own, void *thread, void *packet, bool encrypt, int32_t flow) {
	(void)own, (void)thread;
	const unsigned char *bytes = packet;
	unsigned int length = bytes[36];
	assert(encrypt && flow == -1 && number_at(bytes + 13, 5) == SELF && bytes[18] == 0 && bytes[27] == 5 && bytes[28] == 0);
	assert((length == 4 || length == 16) && core_packet_length(packet) == 37 + length && sent_count < 8);
	struct sent *now = &sent[sent_count++];
	*now = (struct sent){.whom = number_at(bytes + 8, 5), .of = number_at(bytes + 29, 5)};
	struct sockaddr_in *in = (struct sockaddr_in *)&now->place;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&now->place;
	now->place.ss_family = length == 4 ? AF_INET : AF_INET6;
	memcpy(length == 4 ? (void *)&in->sin_addr : (void *)&in6->sin6_addr, bytes + 37, length);
	in->sin_port = htons((uint16_t)number_at(bytes + 34, 2));
}

/* What is sent when the two are known at these places. */
static void meet(const struct place *one, const struct place *other) {
	static int64_t later;
	uint64_t nodes[2] = {ONE, OTHER};
	struct core_peer pair[2] = {peer(ONE, one), peer(OTHER, other)};
	should_unite(NULL, later += 30000, &nodes[1], &nodes[0]);
	assert(introduce_due());
	sent_count = 0;
	introduce_look(&(struct core_peers){pair, 2}, SELF, core_time());
	assert(!introduce_due());
}

static bool told(uint64_t whom, uint64_t of, const char *place) {
	struct sockaddr_storage expected = at(place);
	for (unsigned int i = 0; i < sent_count; i++)
		if (sent[i].whom == whom && sent[i].of == of && same_endpoint(&sent[i].place, &expected)) return true;
	return false;
}

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	pair_begin(ends);
	configure(a, true, 1400), configure(b, true, 1400);
	work(ends, 700);

	uint64_t node = ZT_Node_address(b->core);
	alarm(5);
	relay(ends, node);
	assert(!introduce_due());
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < NODES; i++) relay(ends, 0x1000000000ULL + (uint64_t)i);
	size_t after = mallinfo2().uordblks, kept = after > before ? after - before : 0;
	assert(kept < 100 << 10);
	assert(introduce_due());
	introduce_look(&(struct core_peers){NULL, 0}, ZT_Node_address(a->core), core_time());
	assert(!introduce_due());
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 100);
	assert(a->frames == 1);

	uint64_t same[2] = {1, 2};
	assert(!should_unite(NULL, 1, &same[0], &same[1]) && introduce_due());
	introduce_look(&(struct core_peers){NULL, 0}, 3, 1);
	should_unite(NULL, 29999, &same[1], &same[0]);
	assert(!introduce_due());
	should_unite(NULL, 30001, &same[1], &same[0]);
	assert(introduce_due());
	introduce_look(&(struct core_peers){NULL, 0}, 3, 1);

	scope_prefer(is_configured, NULL);
	const struct place there[] = {{"192.0.2.2/9993", 0, 1}, {NULL, 0, 0}},
					   global[] = {{"8.8.8.8/9993", 0, 1}, {NULL, 0, 0}};
	const struct place two[] = {{"192.0.2.3/9999", 0, 1}, {"192.0.2.1/7777", 0, 0}},
					   older[] = {{"192.0.2.3/9999", 9, 0}, two[1]};
	const struct place both[] = {{"2001:db8::1/9993", 0, 1}, {"192.0.2.1/9993", 0, 0}},
					   far[] = {{"2001:db8::2/9", 0, 0}, there[0]};
	meet(one("192.0.2.1/7777", 0), there);
	assert(sent_count == 2); /* this one is configured, the other is not */
	assert(told(ONE, OTHER, "192.0.2.2/9993") && told(OTHER, ONE, "192.0.2.1/7777"));
	meet(both, far);
	assert(sent_count == 4 && told(ONE, OTHER, "2001:db8::2/9") && told(OTHER, ONE, "2001:db8::1/9993"));
	assert(told(ONE, OTHER, "192.0.2.2/9993") && told(OTHER, ONE, "192.0.2.1/9993"));
	meet(one("51.68.10.1/9993", 0), global);
	assert(sent_count == 2 && told(OTHER, ONE, "51.68.10.1/9993"));
	meet(one("10.0.0.1/7777", 0), global);
	assert(sent_count == 0); /* behind another's NAT */
	meet(one("2001:db8::1/7777", 0), there);
	assert(sent_count == 0);
	meet(one("192.0.2.1/7777", 20000), there);
	assert(sent_count == 0); /* not heard of any more */
	meet(two, there);
	assert(sent_count == 2 && told(OTHER, ONE, "192.0.2.1/7777")); /* configured first, */
	scope_prefer(NULL, NULL);
	meet(two, there);
	assert(sent_count == 2 && told(OTHER, ONE, "192.0.2.3/9999")); /* then the preferred one, */
	meet(older, there);
	assert(sent_count == 2 && told(OTHER, ONE, "192.0.2.1/7777")); /* then who was heard of last */
	printf("core_introduce: no peer is introduced to itself, %zu kB of %d sources, and both are told\n", kept >> 10, NODES);
	pair_end(ends);
	return 0;
}
