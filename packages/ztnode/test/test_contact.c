/* Which peers' paths are kept to the uplink that the routes prefer. Core, sockets and the others are played. */
#include "../src/contact.c"

#include <assert.h>
#include <stdio.h>

enum { PEERS = 300, SOCKET = 3, OTHER = 4, START = 1000000 };

static struct core_peers played;
static bool choice;

struct shared_pointer *topology_get_peer(struct shared_pointer *result, void *topology, void *thread,
                                         const uint64_t *address) {
	(void)topology, (void)thread, (void)address;
	result->object = NULL;
	return result;
}
void peer_send_hello(void *peer, void *thread, int64_t socket, const struct sockaddr_storage *to, int64_t now) {
	(void)peer, (void)thread, (void)socket, (void)to, (void)now;
}
void peer_reset(void *peer, void *thread, int scope, int family, int64_t now) {
	(void)peer, (void)thread, (void)scope, (void)family, (void)now;
}
void peer_destroy(void *peer) { (void)peer; }
struct core_peers *ZT_Node_peers(core_node *node) {
	(void)node;
	return played.peers ? &played : NULL;
}
void ZT_Node_freeQueryResult(core_node *node, void *result) { (void)node, (void)result; }
uint64_t ZT_Node_address(core_node *node) {
	(void)node;
	return 1;
}
void relay_choose(const struct core_peers *peers) { (void)peers; }
void guard_know(struct guard *guard, const struct core_peers *peers, const struct settings *settings) {
	(void)guard, (void)peers, (void)settings;
}
bool guard_closed(const struct guard *guard) {
	(void)guard;
	return false;
}
bool introduce_due(void) { return false; }
void introduce_look(const struct core_peers *peers, uint64_t self, int64_t now) { (void)peers, (void)self, (void)now; }
bool underlay_has(struct underlay *underlay, int64_t id) {
	(void)underlay;
	return id == SOCKET;
}
bool underlay_has_choice(struct underlay *underlay, int64_t id) {
	(void)underlay;
	return choice && id == SOCKET;
}
int64_t underlay_better(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to) {
	(void)underlay, (void)id, (void)to;
	return 0;
}

static uint64_t node_of(size_t number) { return 0x1000 + 10 * number; }

static struct sockaddr_storage address_of(size_t number) {
	char text[64];
	struct sockaddr_storage address;
	snprintf(text, sizeof text, "198.51.%zu.%zu/9993", number / 200, number % 200 + 1);
	assert(parse_address(text, '/', &address));
	return address;
}

static bool is_kept(struct contact *contact, uint64_t node, int64_t socket, size_t number) {
	struct sockaddr_storage address = address_of(number);
	bool silent = false;
	return contact_keeps(contact, node, socket, &address, &silent) && !silent;
}

/* All of so many peers have a path that works. */
static void look(struct contact *contact, size_t count, int64_t now) {
	static const struct settings settings;
	static struct core_peer peers[PEERS];
	for (size_t i = 0; i < count; i++) {
		struct core_path path = {.address = address_of(i), .socket = SOCKET, .preferred = 1};
		path.last_receive = path.last_send = (uint64_t)now;
		peers[i] = (struct core_peer){.address = node_of(i), .path_count = 1, .paths = {path}};
	}
	played = (struct core_peers){.peers = peers, .count = count};
	contact_look(contact, &settings, now);
}

static void however_many_there_are_the_path_of_each_is_kept(struct contact *contact) {
	choice = true;
	look(contact, PEERS, START);
	for (size_t i = 0; i < PEERS; i++) {
		assert(is_kept(contact, node_of(i), OTHER, i) && !is_kept(contact, node_of(i), SOCKET, i));
		assert(!is_kept(contact, node_of(i) + 1, OTHER, i) && !is_kept(contact, node_of(i), OTHER, i + 1));
	}
	assert(!is_kept(contact, 1, OTHER, 0) && !is_kept(contact, UINT64_MAX, OTHER, 0));
}

static void those_that_are_gone_are_forgotten(struct contact *contact) {
	look(contact, 2, START + 2000);
	assert(is_kept(contact, node_of(1), OTHER, 1) && !is_kept(contact, node_of(2), OTHER, 2));
	played.peers = NULL;
	contact_look(contact, &(struct settings){0}, START + 4000);
	assert(!is_kept(contact, node_of(1), OTHER, 1));
}

static void without_a_choice_nothing_is_kept(struct contact *contact) {
	choice = false;
	look(contact, PEERS, START + 6000);
	assert(contact->kept_count == 0 && !is_kept(contact, node_of(0), OTHER, 0));
}

static void *receive(void *argument) {
	for (int i = 0; i < 20000; i++) is_kept(argument, node_of((size_t)i % PEERS), OTHER, (size_t)i % PEERS);
	return NULL;
}

static void another_thread_may_ask_meanwhile(struct contact *contact) {
	pthread_t thread;
	choice = true;
	look(contact, PEERS, START + 10000);
	assert(pthread_create(&thread, NULL, receive, contact) == 0);
	for (size_t i = 1; i < 200; i++) look(contact, PEERS - i, START + 10000 + 2000 * (int64_t)i);
	pthread_join(thread, NULL);
}

int main(void) {
	struct contact *contact = calloc(1, sizeof *contact);
	assert(contact);
	pthread_mutex_init(&contact->lock, NULL);
	however_many_there_are_the_path_of_each_is_kept(contact);
	those_that_are_gone_are_forgotten(contact);
	without_a_choice_nothing_is_kept(contact);
	another_thread_may_ask_meanwhile(contact);
	contact_free(contact);
	puts("ok");
	return 0;
}
