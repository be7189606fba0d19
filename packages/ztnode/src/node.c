#include "node.h"

#include "callbacks.h"
#include "caller.h"
#include "decode.h"
#include "expiry.h"
#include "home.h"
#include "io.h"
#include "offloads.h"
#include "receive.h"
#include "scope.h"
#include "shortcut.h"
#include "state.h"
#include "tap.h"
#include "util.h"

#include <errno.h>
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
#include <unistd.h>

#define LOOP_MS 250       /* the longest sleep of the main loop */
#define LOOK_MS 2000      /* how often files and multicast groups are looked at without an event */
#define FORGET_MS 3600000 /* how often the files of peers are looked at */

struct node {
	core_node *core;
	char home[HOME_MAX];
	unsigned int port;
	uint64_t address;
	char public_identity[256];
	atomic_bool stop;
	int64_t deadline; /* of the core's background tasks; the main thread's */
	int64_t forgot;   /* when the files of peers were looked at last, by clock_ms */
	struct core_host host;
	struct network_host network_host;
	struct hello *hello;
	struct guard *guard;
	pthread_t receiver;
	int netlink;
};

/* -- the thread that receives */

static void packet_in(void *context, int64_t now, int64_t socket, const struct sockaddr_storage *from,
                      unsigned char *packet, size_t length) {
	struct node *node = context;
	/* Also keeps out beacons of versions before 1.0.4, which nothing signs. */
	enum gate_verdict verdict = guard_pass(node->guard, from, packet, length, now);
	if (verdict == GATE_REFUSED) return;
	struct shortcut_frame frame;
	if (shortcut_in(socket, from, packet, length, &frame)) {
		networks_deliver_frame(node->host.networks, frame.which, frame.bytes, frame.length);
		return;
	}
	unsigned char plain[HELLO_MAX];
	if (hello_is_encrypted(packet, length) && number_at(packet + HELLO_DESTINATION, 5) == node->address) {
		length = hello_open(node->hello, packet, length, verdict == GATE_KNOWN, plain, now);
		if (!length) return; /* the core could not read it either */
		packet = plain;
	}
	int result = shortcut_ask_in(node->core, now, socket, from, packet, length);
	if (result >= 100 && result < 1000) {
		say("the core failed with code %d", result);
		node_stop(node);
	}
}

static void *receive(void *argument) {
	struct node *node = argument;
	io_begin();
	tap_gather_here();
	if (!receive_packets(node->host.underlay, packet_in, node, io_flush, &node->stop)) {
		say("no memory for the packets of the underlay");
		node_stop(node);
	}
	tap_gather_end();
	return NULL;
}

/* -- what is looked at from time to time */

static void apply_physical(struct node *node) {
	ZT_Node_setPhysicalPathConfiguration(node->core, NULL, NULL);
	const struct settings *settings = localconf_settings(node->host.conf);
	uint64_t trusted[DECODE_TRUSTED];
	size_t trusted_count = 0;
	for (size_t i = 0; i < settings->physical_count; i++) {
		const struct physical_path *path = &settings->physical[i];
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
		if (path->trusted_path_id && trusted_count < DECODE_TRUSTED) trusted[trusted_count++] = path->trusted_path_id;
	}
	decode_trust(trusted, trusted_count);
}

static void tell_addresses(struct node *node) {
	struct sockaddr_storage addresses[UNDERLAY_SOCKETS];
	size_t count = underlay_addresses(node->host.underlay, addresses, UNDERLAY_SOCKETS);
	ZT_Node_clearLocalInterfaceAddresses(node->core);
	for (size_t i = 0; i < count; i++) ZT_Node_addLocalInterfaceAddress(node->core, &addresses[i]);
}

/* True when it is to be done again soon: an address may be taken by a socket of ours that is about to be closed. */
static bool look_around(struct node *node) {
	bool taken;
	if (!node->forgot || clock_ms() - node->forgot >= FORGET_MS) {
		node->forgot = clock_ms();
		state_forget_peers(node->home, wall_ms());
	}
	if (localconf_look(node->host.conf)) apply_physical(node);
	bool changed = underlay_rebind(node->host.underlay, localconf_settings(node->host.conf), &taken);
	if (changed) tell_addresses(node);
	networks_look_at_groups(node->host.networks);
	expiry_look(now_ms());
	return changed && taken;
}

static int open_netlink(void) {
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	struct sockaddr_nl address = {.nl_family = AF_NETLINK,
	                              .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	if (fd >= 0) bind(fd, (struct sockaddr *)&address, sizeof address);
	return fd;
}

/* -- life */

static void join(void *context, uint64_t nwid) { networks_join(((struct node *)context)->host.networks, nwid); }

static void orbit(void *context, uint64_t world) { ZT_Node_orbit(((struct node *)context)->core, NULL, world, 0); }

static bool open_core(struct node *node) {
	if (ZT_Node_new(&node->core, &node->host, NULL, &callbacks, now_ms()) != CORE_OK || node->host.identity_lost) {
		say("the node cannot be started in %s; its identity is unusable or the disk cannot be written", node->home);
		return false;
	}
	node->network_host = (struct network_host){node->core, node->home, localconf_settings(node->host.conf)->offloads_off};
	node->host.networks = networks_new(&node->network_host);
	if (!node->host.networks) return false;
	struct core_status status;
	ZT_Node_status(node->core, &status);
	node->address = status.address;
	snprintf(node->public_identity, sizeof node->public_identity, "%s", status.public_identity);
	node->guard = guard_new(node->home, node->address, status.secret_identity);
	if (!node->guard) return false;
	node->host.contact = contact_new(node->core, node->host.underlay, node->guard);
	if (!node->host.contact) return false;
	node->hello = hello_new(status.secret_identity);
	return node->hello != NULL;
}

static bool is_configured(void *conf, const struct sockaddr_storage *address) { return localconf_names(conf, address); }

/* False with a line said. */
static bool open_underlay(struct node *node) {
	bool taken;
	node->host.underlay = underlay_open(node->port, localconf_settings(node->host.conf)->offloads_off);
	if (!node->host.underlay) {
		say("no sockets: %s", strerror(errno));
		return false;
	}
	underlay_rebind(node->host.underlay, localconf_settings(node->host.conf), &taken);
	if (!taken) return true;
	char holder[200];
	port_holder("udp", node->port, holder, sizeof holder);
	say("UDP port %u is taken by %s; give another with -p", node->port, holder);
	return false;
}

struct node *node_start(const char *home, unsigned int port) {
	struct node *node = calloc(1, sizeof *node);
	if (!node) return NULL;
	snprintf(node->home, sizeof node->home, "%s", home);
	node->host.home = node->home;
	node->host.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	node->netlink = open_netlink();
	if (node->host.wake < 0) {
		say("no descriptors: %s", strerror(errno));
		goto failed;
	}
	if (!home_identity_sound(home) || !home_planet_readable(home)) goto failed;
	node->host.conf = localconf_open(home);
	if (!node->host.conf) goto failed;
	scope_prefer(is_configured, node->host.conf);
	unsigned int configured = localconf_settings(node->host.conf)->primary_port;
	node->port = port ? port : configured ? configured : PORT_DEFAULT;
	if (localconf_settings(node->host.conf)->offloads_off & OFFLOAD_SHORTCUT) shortcut_enable(false);
	if (!open_underlay(node) || !open_core(node)) goto failed;
	apply_physical(node);
	tell_addresses(node);
	/* Every moons.d/<world id>.moon and networks.d/<network id>.conf, as zerotier-one does when it starts. */
	home_records(home, "moons.d", ".moon", orbit, node);
	home_records(home, "networks.d", ".conf", join, node);
	return node;
failed:
	node_delete(node);
	return NULL;
}

/* Whether the kernel has said that something has changed. */
static bool drain(int netlink) {
	char buffer[8192];
	bool event = false;
	while (recv(netlink, buffer, sizeof buffer, 0) > 0) event = true;
	return event;
}

/* Milliseconds until something is due. */
static int pause_for(const struct node *node) {
	int64_t wait = node->deadline - now_ms(), most = contact_pause(node->host.contact);
	if (most > LOOP_MS) most = LOOP_MS;
	return (int)(wait < 1 ? 1 : wait > most ? most : wait);
}

int node_run(struct node *node, int stop) {
	if (pthread_create(&node->receiver, NULL, receive, node) != 0) return 1;
	struct pollfd polls[3] = {
		{.fd = node->host.wake, .events = POLLIN}, {.fd = node->netlink, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
	int64_t looked = 0;
	while (!node->stop) {
		int64_t now = now_ms();
		shortcut_change_begin();
		if (node->deadline <= now) ZT_Node_processBackgroundTasks(node->core, NULL, now, &node->deadline);
		bool event = polls[1].revents && drain(node->netlink);
		if (event || now - looked >= LOOK_MS) {
			bool again = look_around(node);
			looked = again ? now - LOOK_MS + LOOP_MS : now;
		}
		contact_look(node->host.contact, localconf_settings(node->host.conf), now_ms());
		shortcut_change_end();
		guard_look(node->guard, now_ms());
		io_flush(NULL);
		if (poll(polls, 3, pause_for(node)) < 0) continue;
		uint64_t value;
		if (polls[0].revents) (void)!read(node->host.wake, &value, sizeof value);
		if (polls[2].revents) node->stop = true;
	}
	underlay_wake(node->host.underlay);
	pthread_join(node->receiver, NULL);
	return node->host.identity_lost ? 1 : 0;
}

void node_stop(struct node *node) {
	uint64_t one = 1;
	node->stop = true;
	(void)!write(node->host.wake, &one, sizeof one);
}

void node_delete(struct node *node) {
	if (!node) return;
	if (node->host.networks) networks_close(node->host.networks);
	if (node->core) ZT_Node_delete(node->core);
	networks_free(node->host.networks);
	contact_free(node->host.contact);
	underlay_close(node->host.underlay);
	localconf_close(node->host.conf);
	hello_free(node->hello);
	guard_free(node->guard);
	if (node->host.wake >= 0) close(node->host.wake);
	if (node->netlink >= 0) close(node->netlink);
	free(node);
}

/* -- for the API */

core_node *node_core(struct node *node) { return node->core; }
unsigned int node_port(const struct node *node) { return node->port; }
uint64_t node_address(const struct node *node) { return node->address; }
const char *node_public_identity(const struct node *node) { return node->public_identity; }
bool node_online(const struct node *node) { return node->host.online; }
struct underlay *node_underlay(struct node *node) {
	return node->host.underlay;
}
struct hello *node_hello(struct node *node) {
	return node->hello;
}
const struct guard *node_guard(const struct node *node) { return node->guard; }

struct networks *node_networks(struct node *node) {
	return node->host.networks;
}
