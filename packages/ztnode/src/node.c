#include "node.h"

#include "caller.h"
#include "contact.h"
#include "networks.h"
#include "state.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTINGS_LIMIT (1 << 20)
#define LOOP_MS 250  /* the longest sleep of the main loop */
#define LOOK_MS 2000 /* how often files and multicast groups are looked at without an event */

struct node {
	core_node *core;
	char home[HOME_MAX];
	unsigned int port;
	uint64_t address;
	char public_identity[256];
	atomic_bool online, stop, collision, identity_lost;
	volatile int64_t deadline;
	struct network_host host;
	struct underlay *underlay;
	struct contact *contact;
	struct hello *hello;
	struct guard *guard;
	pthread_t receiver;
	int wake, netlink;
	struct networks *networks;
	pthread_mutex_t lock; /* of settings, which the main thread changes */
	struct settings *settings;
	struct timespec settings_seen;
};

static void wake(struct node *node) {
	uint64_t one = 1;
	(void)!write(node->wake, &one, sizeof one);
}

/* -- callbacks of the core */

static void on_state_put(core_node *core, void *user, void *thread, int type, const uint64_t id[2], const void *data,
                         int length) {
	(void)core, (void)thread;
	struct node *node = user;
	if (!state_put(node->home, type, id, data, length)) node->identity_lost = true;
}

static int on_state_get(core_node *core, void *user, void *thread, int type, const uint64_t id[2], void *data,
                        unsigned int size) {
	(void)core, (void)thread;
	return state_get(((struct node *)user)->home, type, id, data, size);
}

static int on_wire_send(core_node *core, void *user, void *thread, int64_t socket, const struct sockaddr_storage *to,
                        const void *data, unsigned int length, unsigned int ttl) {
	(void)core, (void)thread, (void)ttl;
	return underlay_send(((struct node *)user)->underlay, socket, to, data, length) ? 0 : -1;
}

static void on_frame(core_node *core, void *user, void *thread, uint64_t nwid, void **where, uint64_t source,
                     uint64_t destination, unsigned int type, unsigned int vlan, const void *data, unsigned int length) {
	(void)core, (void)thread, (void)nwid, (void)vlan;
	networks_deliver(((struct node *)user)->networks, *where, source, destination, type, data, length);
}

static int on_network(core_node *core, void *user, void *thread, uint64_t nwid, void **where, int operation,
                      const struct core_network *config) {
	(void)core, (void)thread, (void)nwid;
	return networks_configure(((struct node *)user)->networks, *where, operation, config);
}

static void on_event(core_node *core, void *user, void *thread, int event, const void *data) {
	(void)core, (void)thread, (void)data;
	struct node *node = user;
	if (event == CORE_EVENT_ONLINE) node->online = true;
	if (event == CORE_EVENT_OFFLINE) node->online = false;
	/* Any peer that is a root or a moon can say so, as every remote of a link without a controller is: no reason to end. */
	if (event == CORE_EVENT_IDENTITY_COLLISION && !atomic_exchange(&node->collision, true))
		say("a peer says that another node has this node's address with another key; it goes on");
}

/* No tunnel inside a tunnel: blacklisted prefixes, and every address that one of our own devices has. The core asks for
 * each address that a peer is heard from and that is none of its paths', too: a sign that the peer may have moved. */
static int on_path_check(core_node *core, void *user, void *thread, uint64_t peer, int64_t socket,
                         const struct sockaddr_storage *to) {
	(void)core, (void)thread, (void)socket;
	struct node *node = user;
	pthread_mutex_lock(&node->lock);
	bool excluded = address_excluded(node->settings, to);
	pthread_mutex_unlock(&node->lock);
	if (!excluded && node->contact && contact_hint(node->contact, peer, to)) wake(node);
	return !excluded;
}

static int on_path_lookup(core_node *core, void *user, void *thread, uint64_t peer, int family,
                          struct sockaddr_storage *found) {
	(void)core, (void)thread;
	struct node *node = user;
	int count = 0;
	pthread_mutex_lock(&node->lock);
	for (size_t i = 0; i < node->settings->try_count; i++) {
		const struct try_address *entry = &node->settings->tries[i];
		if (entry->node != peer || (family != -1 && entry->address.ss_family != family)) continue;
		if (count++ == 0 || rand() % count == 0) *found = entry->address;
	}
	pthread_mutex_unlock(&node->lock);
	return count > 0;
}

/* -- threads */

static void packet_in(void *context, int64_t socket, const struct sockaddr_storage *from, const unsigned char *packet,
                      size_t length) {
	struct node *node = context;
	/* Also keeps out beacons of versions before 1.0.4, which nothing signs. */
	if (!guard_pass(node->guard, from, packet, length, now_ms())) return;
	unsigned char plain[HELLO_MAX];
	size_t opened = hello_is_encrypted(packet, length) ? hello_open(node->hello, packet, length, plain, now_ms()) : 0;
	if (opened) packet = plain, length = opened;
	int result =
		ZT_Node_processWirePacket(node->core, NULL, now_ms(), socket, from, packet, (unsigned int)length, &node->deadline);
	if (result >= 100 && result < 1000) {
		say("the core failed with code %d", result);
		node_stop(node);
	}
}

static void *receive(void *argument) {
	struct node *node = argument;
	tap_gather_here();
	underlay_receive(node->underlay, packet_in, node, io_flush, &node->stop);
	tap_gather_end();
	return NULL;
}

/* -- what is looked at from time to time */

static void apply_physical(struct node *node) {
	ZT_Node_setPhysicalPathConfiguration(node->core, NULL, NULL);
	for (size_t i = 0; i < node->settings->physical_count; i++) {
		const struct physical_path *path = &node->settings->physical[i];
		if (!path->mtu && !path->trusted_path_id) continue;
		struct sockaddr_storage network = {0};
		network.ss_family = (sa_family_t)path->prefix.family;
		if (path->prefix.family == AF_INET) {
			memcpy(&((struct sockaddr_in *)&network)->sin_addr, path->prefix.bytes, 4);
			((struct sockaddr_in *)&network)->sin_port = htons((uint16_t)path->prefix.length);
		} else {
			memcpy(&((struct sockaddr_in6 *)&network)->sin6_addr, path->prefix.bytes, 16);
			((struct sockaddr_in6 *)&network)->sin6_port = htons((uint16_t)path->prefix.length);
		}
		struct core_path_config config = {path->trusted_path_id, path->mtu};
		ZT_Node_setPhysicalPathConfiguration(node->core, &network, &config);
	}
}

/* Read local.conf when it is newer. False with a line said when it is broken; the last good one stays. */
static bool look_at_settings(struct node *node, bool *changed) {
	char path[HOME_MAX + 16], reason[160];
	snprintf(path, sizeof path, "%s/local.conf", node->home);
	struct stat info;
	*changed = false;
	bool exists = stat(path, &info) == 0;
	if (exists && node->settings && info.st_mtim.tv_sec == node->settings_seen.tv_sec &&
	    info.st_mtim.tv_nsec == node->settings_seen.tv_nsec)
		return true;
	if (!exists && node->settings) return true;
	size_t length = 2;
	char *text = exists ? read_file(path, SETTINGS_LIMIT, &length) : strdup("{}");
	struct settings *fresh = text ? settings_parse(text, length, reason, sizeof reason) : NULL;
	if (!fresh) say("%s cannot be used (%s)", path, text ? reason : strerror(errno));
	free(text);
	node->settings_seen = exists ? info.st_mtim : (struct timespec){0, 0};
	if (!fresh) return false;
	pthread_mutex_lock(&node->lock);
	settings_free(node->settings);
	node->settings = fresh;
	pthread_mutex_unlock(&node->lock);
	*changed = true;
	return true;
}

static void tell_addresses(struct node *node) {
	struct sockaddr_storage addresses[64];
	size_t count = underlay_addresses(node->underlay, addresses, 64);
	ZT_Node_clearLocalInterfaceAddresses(node->core);
	for (size_t i = 0; i < count; i++) ZT_Node_addLocalInterfaceAddress(node->core, &addresses[i]);
}

static void look_around(struct node *node) {
	bool changed, taken;
	if (look_at_settings(node, &changed) && changed) apply_physical(node);
	if (underlay_rebind(node->underlay, node->settings, &taken)) tell_addresses(node);
	networks_look_at_groups(node->networks);
}

static int open_netlink(void) {
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	struct sockaddr_nl address = {.nl_family = AF_NETLINK,
	                              .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	if (fd >= 0) bind(fd, (struct sockaddr *)&address, sizeof address);
	return fd;
}

/* -- life */

static bool check_identity(const char *home) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/identity.secret", home);
	char *text = read_file(path, 4096, NULL);
	if (!text) {
		if (errno == ENOENT) return true;
		say("%s cannot be read: %s", path, strerror(errno));
		return false;
	}
	bool good = identity_sound(text);
	explicit_bzero(text, strlen(text));
	free(text);
	if (!good) say("%s is corrupt; it is left as it is, restore it or move it aside", path);
	return good;
}

static void join_known(struct node *node) {
	char path[HOME_MAX + 16];
	snprintf(path, sizeof path, "%s/networks.d", node->home);
	DIR *directory = opendir(path);
	struct dirent *entry;
	while (directory && (entry = readdir(directory))) {
		uint64_t nwid;
		if (strlen(entry->d_name) == 21 && strcmp(entry->d_name + 16, ".conf") == 0 && parse_hex(entry->d_name, 16, &nwid))
			networks_join(node->networks, nwid);
	}
	if (directory) closedir(directory);
}

/* Every moons.d/<world id>.moon, as zerotier-one does when it starts. */
static void orbit_known(struct node *node) {
	char path[HOME_MAX + 16];
	snprintf(path, sizeof path, "%s/moons.d", node->home);
	DIR *directory = opendir(path);
	struct dirent *entry;
	while (directory && (entry = readdir(directory))) {
		uint64_t world;
		if (strlen(entry->d_name) == 21 && strcmp(entry->d_name + 16, ".moon") == 0 && parse_hex(entry->d_name, 16, &world))
			ZT_Node_orbit(node->core, NULL, world, 0);
	}
	if (directory) closedir(directory);
}

static bool open_core(struct node *node) {
	static const struct core_callbacks callbacks = {0,          on_state_put, on_state_get,  on_wire_send,  on_frame,
	                                                on_network, on_event,     on_path_check, on_path_lookup};
	if (ZT_Node_new(&node->core, node, NULL, &callbacks, now_ms()) != CORE_OK || node->identity_lost) {
		say("the node cannot be started in %s; its identity is unusable or the disk refuses", node->home);
		return false;
	}
	node->host = (struct network_host){node->core, node->home, &node->deadline};
	node->networks = networks_new(&node->host);
	if (!node->networks) return false;
	struct core_status status;
	ZT_Node_status(node->core, &status);
	node->address = status.address;
	snprintf(node->public_identity, sizeof node->public_identity, "%s", status.public_identity);
	node->guard = guard_new(node->home, node->address, status.secret_identity);
	if (!node->guard) return false;
	node->contact = contact_new(node->core, node->underlay, node->guard);
	if (!node->contact) return false;
	node->hello = hello_new(status.secret_identity);
	return node->hello != NULL;
}

struct node *node_start(const char *home, unsigned int port) {
	struct node *node = calloc(1, sizeof *node);
	if (!node) return NULL;
	snprintf(node->home, sizeof node->home, "%s", home);
	pthread_mutex_init(&node->lock, NULL);
	node->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	node->netlink = open_netlink();
	bool changed, taken = false;
	if (!check_identity(home) || !look_at_settings(node, &changed)) goto failed;
	node->port = port ? port : node->settings->primary_port ? node->settings->primary_port : 9993;
	node->underlay = underlay_open(node->port);
	underlay_rebind(node->underlay, node->settings, &taken);
	if (taken) {
		char holder[200];
		port_holder("udp", node->port, holder, sizeof holder);
		say("UDP port %u is taken by %s; give another with -p", node->port, holder);
		goto failed;
	}
	if (!open_core(node)) goto failed;
	apply_physical(node);
	tell_addresses(node);
	orbit_known(node);
	join_known(node);
	return node;
failed:
	node_delete(node);
	return NULL;
}

int node_run(struct node *node) {
	if (pthread_create(&node->receiver, NULL, receive, node) != 0) return 1;
	struct pollfd polls[2] = {{.fd = node->wake, .events = POLLIN}, {.fd = node->netlink, .events = POLLIN}};
	int64_t looked = 0;
	while (!node->stop) {
		int64_t now = now_ms();
		if (node->deadline <= now) ZT_Node_processBackgroundTasks(node->core, NULL, now, &node->deadline);
		bool event = false;
		char buffer[8192];
		while (polls[1].revents && recv(node->netlink, buffer, sizeof buffer, 0) > 0) event = true;
		if (event || now - looked >= LOOK_MS || now < looked) {
			look_around(node);
			looked = now;
		}
		contact_look(node->contact, node->settings, now_ms());
		guard_look(node->guard, now_ms());
		io_flush(NULL);
		int64_t wait = node->deadline - now_ms(), most = contact_pause(node->contact);
		if (most > LOOP_MS) most = LOOP_MS;
		poll(polls, 2, (int)(wait < 1 ? 1 : wait > most ? most : wait));
		uint64_t value;
		if (polls[0].revents) (void)!read(node->wake, &value, sizeof value);
	}
	underlay_wake(node->underlay);
	pthread_join(node->receiver, NULL);
	return node->identity_lost ? 1 : 0;
}

void node_stop(struct node *node) {
	node->stop = true;
	wake(node);
}

void node_delete(struct node *node) {
	if (node->networks) networks_close(node->networks);
	if (node->core) ZT_Node_delete(node->core);
	networks_free(node->networks);
	contact_free(node->contact);
	if (node->underlay) underlay_close(node->underlay);
	settings_free(node->settings);
	hello_free(node->hello);
	guard_free(node->guard);
	close(node->wake);
	close(node->netlink);
	free(node);
}

/* -- for the API */

core_node *node_core(struct node *node) { return node->core; }
unsigned int node_port(const struct node *node) { return node->port; }
uint64_t node_address(const struct node *node) { return node->address; }
const char *node_public_identity(const struct node *node) { return node->public_identity; }
bool node_online(const struct node *node) { return node->online; }
struct underlay *node_underlay(struct node *node) {
	return node->underlay;
}
struct hello *node_hello(struct node *node) {
	return node->hello;
}
const struct guard *node_guard(const struct node *node) { return node->guard; }

struct networks *node_networks(struct node *node) {
	return node->networks;
}
