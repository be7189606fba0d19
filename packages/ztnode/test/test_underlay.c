/* Which way the routes lead, where the kernel is played that knows them: how often it is asked, and what its answers mean.
 */
#include "../src/underlay.c"

#include <assert.h>

enum { WAN1 = 1, WAN2, LAN, BUNDLE };

static unsigned int asked;
static unsigned int default_device, of_sources[4]; /* what the answers are: without a source, and by that of each device */

int route_open(void) { return eventfd(0, EFD_CLOEXEC); }
bool route_leads(int fd, unsigned int device, const struct sockaddr_storage *from, const struct sockaddr_storage *to) {
	(void)fd, (void)device, (void)from, (void)to;
	return true;
}
unsigned int route_device(int fd, const struct sockaddr_storage *from, const struct sockaddr_storage *to) {
	(void)fd, (void)to;
	asked++;
	uint32_t source = ntohl(((const struct sockaddr_in *)from)->sin_addr.s_addr);
	return source ? of_sources[source & 3] : default_device;
}

static struct sockaddr_storage address(const char *text) {
	struct sockaddr_storage parsed;
	assert(parse_address(text, '/', &parsed));
	return parsed;
}

static struct underlay *with(const struct binding *bindings, size_t count) {
	struct underlay *underlay = underlay_open(9993, 0);
	assert(underlay);
	for (size_t i = 0; i < count; i++) {
		underlay->bindings[i] = bindings[i];
		underlay->bindings[i].fd = dup(underlay->wake);
	}
	underlay->count = count;
	return underlay;
}

/* Each destination in turn, `rounds` times while an answer holds. */
static void count_questions(const struct sockaddr_storage *to, unsigned int count, unsigned int rounds) {
	struct binding loopback = {.id = 1, .address = address("192.0.2.1/9993")};
	struct underlay *underlay = with(&loopback, 1);
	memset(ways, 0, sizeof ways);
	asked = 0;
	int64_t begin = clock_ms();
	for (unsigned int i = 0; i < rounds * count; i++) assert(!underlay_binding(underlay, 1, &to[i % count]));
	if (clock_ms() - begin < WAY_MS) assert(asked == count);
	underlay_close(underlay);
}

static void each_destination_is_asked_for_once_in_a_while(void) {
	struct sockaddr_storage two[] = {address("10.255.1.1/9993"), address("10.255.2.2/9993")}, many[64];
	struct sockaddr_storage near[] = {address("10.255.1.32/9993"), address("10.255.2.1/9993")};
	count_questions(two, 2, 100);
	count_questions(near, 2, 100);
	for (unsigned int i = 0; i < 64; i++) {
		char text[32];
		snprintf(text, sizeof text, "10.255.%u.%u/9993", i / 8, i);
		many[i] = address(text);
	}
	count_questions(many, 64, 10);
}

static const struct binding uplinks[] = {
	{.id = 11, .device = "wan1", .index = WAN1, .address = {.ss_family = AF_INET}},
	{.id = 12, .device = "wan2", .index = WAN2, .address = {.ss_family = AF_INET}},
};

static struct underlay *two_uplinks(void) {
	struct underlay *underlay = with(uplinks, 2);
	underlay->bindings[0].address = address("192.0.2.1/9993");
	underlay->bindings[1].address = address("203.0.113.2/9993");
	of_sources[WAN1] = of_sources[WAN2] = 0;
	return underlay;
}

static void the_route_that_leads_by_an_uplink_counts(void) {
	struct sockaddr_storage to = address("198.51.100.1/9993");
	struct underlay *underlay = two_uplinks();
	default_device = WAN1;
	assert(underlay_better(underlay, 12, &to) == 11 && underlay_better(underlay, 11, &to) == 0);
	default_device = WAN2;
	assert(underlay_better(underlay, 11, &to) == 12);
	assert(underlay_better(underlay, 99, &to) == 0);
	underlay_close(underlay);
}

/* In a full tunnel what has no address of the underlay yet goes by the bundle. */
static void else_that_of_the_address_of_the_path_does(void) {
	struct sockaddr_storage to = address("198.51.100.1/9993");
	struct underlay *underlay = two_uplinks();
	static const unsigned int without[] = {BUNDLE, LAN, 0};
	for (unsigned int i = 0; i < 3; i++) {
		default_device = without[i];
		of_sources[WAN1] = of_sources[WAN2] = WAN1;
		assert(underlay_better(underlay, 12, &to) == 11 && underlay_better(underlay, 11, &to) == 0);
		of_sources[WAN2] = WAN2; /* each by its own */
		assert(underlay_better(underlay, 12, &to) == 0);
		of_sources[WAN2] = 0;
		assert(underlay_better(underlay, 12, &to) == 0);
	}
	underlay_close(underlay);
}

static void one_uplink_is_no_choice(void) {
	struct underlay *underlay = two_uplinks();
	assert(underlay_has_choice(underlay, 11) && underlay_has_choice(underlay, 12) && !underlay_has_choice(underlay, 99));
	underlay->bindings[1].index = WAN1; /* two addresses of one device */
	assert(!underlay_has_choice(underlay, 11) && !underlay_has_choice(underlay, 12));
	underlay->bindings[1] = (struct binding){.id = 12, .fd = underlay->bindings[1].fd, .device = "wan2", .index = WAN2};
	underlay->bindings[1].address = address("2001:db8::1/9993");
	assert(!underlay_has_choice(underlay, 11));
	underlay_close(underlay);
}

int main(void) {
	each_destination_is_asked_for_once_in_a_while();
	the_route_that_leads_by_an_uplink_counts();
	else_that_of_the_address_of_the_path_does();
	one_uplink_is_no_choice();
	puts("ok");
	return 0;
}
