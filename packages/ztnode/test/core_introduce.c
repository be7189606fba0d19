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

static int by_address(const void *one, const void *other) {
	uint64_t a = ((const struct core_peer *)one)->address, b = ((const struct core_peer *)other)->address;
	return (a > b) - (a < b);
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
		path->socket = address_port(&path->address);
		path->last_receive = (uint64_t)(core_time() - place->ago);
	}
	return made;
}

/* -- what is sent, in place of Switch::send */

void __wrap__ZN8ZeroTier6Switch4sendEPvRNS_6PacketEbi(void *own, void *thread, void *packet, bool encrypt, int32_t flow);

enum { ONE = 0x10000001, OTHER = 0x20000002, SELF = 3 };
static struct sent {
	uint64_t whom, of;
	struct sockaddr_storage place, to;
} sent[16];
static unsigned int sent_count;

void __wrap__ZN8ZeroTier6Switch4sendEPvRNS_6PacketEbi(void *own, void *thread, void *packet, bool encrypt, int32_t flow) {
	(void)own, (void)thread;
	const unsigned char *bytes = packet;
	unsigned int length = bytes[36];
	assert(encrypt && flow == -1 && number_at(bytes + 13, 5) == SELF && bytes[18] == 0 && bytes[27] == 5 && bytes[28] == 0);
	assert((length == 4 || length == 16) && core_packet_length(packet) == 37 + length && sent_count < 16);
	int64_t socket = 0;
	const struct sockaddr_storage *to = NULL;
	introduce_redirect(core_packet_length(packet) + 1, &socket, &to);
	assert(!to);
	introduce_redirect(core_packet_length(packet), &socket, &to);
	assert(to && socket == address_port(to)); /* of the path */
	struct sent *now = &sent[sent_count++];
	*now = (struct sent){.whom = number_at(bytes + 8, 5), .of = number_at(bytes + 29, 5)};
	struct sockaddr_in *in = (struct sockaddr_in *)&now->place;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&now->place;
	now->place.ss_family = length == 4 ? AF_INET : AF_INET6;
	memcpy(length == 4 ? (void *)&in->sin_addr : (void *)&in6->sin6_addr, bytes + 37, length);
	in->sin_port = htons((uint16_t)number_at(bytes + 34, 2));
	now->to = *to;
}

/* What is sent when the two are known at these places. */
static void meet(const struct place *one, const struct place *other) {
	static int64_t later = 1000000;
	uint64_t nodes[2] = {ONE, OTHER};
	struct core_peer pair[2] = {peer(ONE, one), peer(OTHER, other)};
	const struct core_peers peers = {pair, 2};
	introduce_look(&peers, SELF, core_time()); /* now they are known */
	should_unite(NULL, later += 30000, &nodes[1], &nodes[0]);
	assert(introduce_due());
	sent_count = 0;
	introduce_look(&peers, SELF, core_time());
	assert(!introduce_due());
	const struct sockaddr_storage *none = NULL;
	introduce_redirect(41, &later, &none);
	assert(!none);
}

/* Whether ONE, over its path to that address, was told of the other's, and the other way round. */
static bool told(const char *one, const char *other) {
	struct sockaddr_storage places[2] = {at(one), at(other)};
	int found = 0;
	for (unsigned int i = 0; i < sent_count; i++) {
		bool first = sent[i].whom == ONE;
		assert(sent[i].of == (first ? OTHER : ONE) && (first || sent[i].whom == OTHER));
		found += same_endpoint(&sent[i].to, &places[!first]) && same_endpoint(&sent[i].place, &places[first]);
	}
	return found == 2;
}

/* Among these nodes there are more pairs than places; none is introduced twice within its pause. */
static void test_pauses(void) {
	enum { MANY = 300, PAIRS = MANY * (MANY - 1) / 2 };
	static struct core_peer peers[MANY];
	static bool noted[MANY][MANY];
	uint64_t random = 1;
	for (int i = 0; i < MANY; i++) {
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		peers[i].address = random >> 24;
	}
	qsort(peers, MANY, sizeof *peers, by_address);
	const struct core_peers list = {peers, MANY};
	introduce_look(&list, SELF, 1);
	int count = 0;
	for (int64_t now = 1; now < 30001; now += 10000)
		for (int i = 0; i < MANY; i++)
			for (int k = 0; k < i; k++) {
				assert(!should_unite(NULL, now, &peers[i].address, &peers[k].address));
				if (!introduce_due()) continue;
				assert(!noted[i][k]);
				noted[i][k] = true, count++;
				introduce_look(&list, SELF, 1);
			}
	assert(count > PAIRS / 2 && count < PAIRS);
	assert(!should_unite(NULL, 30001, &peers[0].address, &peers[1].address) && introduce_due());
	introduce_look(&list, SELF, 1);
	assert(!should_unite(NULL, 90000, &peers[0].address, &peers[0].address) && !introduce_due());
	for (int i = 0; i < MANY; i++)
		for (int k = 0; k < i; k++) should_unite(NULL, 200000, &peers[i].address, &peers[k].address);
	introduce_look(&list, SELF, 1); /* and no more than there is room for */
}

int main(void) {
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	pair_begin(ends);
	configure(a, true, 1400), configure(b, true, 1400);
	work(ends, 700);

	uint64_t node = ZT_Node_address(b->core), other = node > 7 ? 7 : 1ULL << 39;
	struct core_peer known[2] = {{.address = other}, {.address = node}};
	if (other > node) known[0].address = node, known[1].address = other;
	introduce_look(&(struct core_peers){known, 2}, SELF, 1);
	alarm(5);
	relay(ends, node);
	assert(!introduce_due());
	relay(ends, other);
	assert(introduce_due());
	introduce_look(&(struct core_peers){NULL, 0}, SELF, 1);
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < NODES; i++) relay(ends, 0x1000000000ULL + (uint64_t)i);
	size_t after = mallinfo2().uordblks, kept = after > before ? after - before : 0;
	assert(kept < 100 << 10);
	assert(!introduce_due()); /* nobody knows them */
	const unsigned char frame[40] = {0x45, 0, 0, 40};
	send_frame(b, b->mac, a->mac, frame, sizeof frame);
	work(ends, 100);
	assert(a->frames == 1);

	test_pauses();
	scope_prefer(is_configured, NULL);
	const struct place there[] = {{"192.0.2.2/9993", 0, 1}, {NULL, 0, 0}},
					   global[] = {{"8.8.8.8/9993", 0, 1}, {NULL, 0, 0}};
	const struct place two[] = {{"192.0.2.3/9999", 0, 1}, {"192.0.2.1/7777", 0, 0}},
					   older[] = {{"192.0.2.3/9999", 9, 0}, two[1]};
	const struct place both[] = {{"2001:db8::1/9993", 0, 1}, {"192.0.2.1/9993", 0, 0}},
					   far[] = {{"2001:db8::2/9", 0, 0}, there[0]};
	const struct place copied[] = {{"10.0.0.66/1", 0, 1}, {"8.8.8.8/7777", 0, 0}},
					   copied_too[] = {{"10.0.0.66/2", 0, 1}, {"8.8.4.4/7777", 0, 0}};
	meet(one("192.0.2.1/7777", 0), there);
	assert(sent_count == 2 && told("192.0.2.1/7777", "192.0.2.2/9993")); /* this one is configured, the other is not */
	meet(both, far);
	assert(sent_count == 4 && told("2001:db8::1/9993", "2001:db8::2/9") && told("192.0.2.1/9993", "192.0.2.2/9993"));
	meet(one("51.68.10.1/9993", 0), global);
	assert(sent_count == 2 && told("51.68.10.1/9993", "8.8.8.8/9993"));
	meet(one("10.0.0.1/7777", 0), global);
	assert(sent_count == 0); /* behind another's NAT */
	meet(one("2001:db8::1/7777", 0), there);
	assert(sent_count == 0);
	meet(one("192.0.2.1/7777", 20000), there);
	assert(sent_count == 0); /* not heard of any more */
	meet(two, there);
	assert(sent_count == 2 && told("192.0.2.1/7777", "192.0.2.2/9993")); /* configured first, */
	/* Both are heard from a private address as well, as when somebody sends their packets again: */
	meet(copied, copied_too);
	assert(sent_count == 2 && told("8.8.8.8/7777", "8.8.4.4/7777"));
	scope_prefer(NULL, NULL);
	meet(copied, copied_too);
	assert(sent_count == 4 && told("8.8.8.8/7777", "8.8.4.4/7777") && told("10.0.0.66/1", "10.0.0.66/2"));
	meet(two, there);
	assert(sent_count == 2 && told("192.0.2.3/9999", "192.0.2.2/9993")); /* then the preferred one, */
	meet(older, there);
	assert(sent_count == 2 && told("192.0.2.1/7777", "192.0.2.2/9993")); /* then who was heard of last */
	printf("core_introduce: no peer is introduced to itself, %zu kB of %d sources, and both are told\n", kept >> 10, NODES);
	pair_end(ends);
	return 0;
}
