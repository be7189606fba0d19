#include "network.h"

#include "groups.h"
#include "io.h"
#include "send.h"
#include "settings.h"
#include "shortcut.h"
#include "tap.h"
#include "util.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICEMAP_LIMIT (1 << 20)
#define ETHERNET_HEADER 14

struct network {
	const struct network_host *host;
	uint64_t nwid;
	pthread_mutex_t lock; /* of a configuration: the core gives them from several threads */
	unsigned int mtu;
	_Atomic(struct tap *) tap; /* there once its thread is */
	struct tap *read;          /* the same, for that thread */
	pthread_t reader;
	atomic_bool stop;
	struct groups groups; /* the main thread's */
	bool told_full;
};

struct network *network_new(const struct network_host *host, uint64_t nwid) {
	struct network *network = calloc(1, sizeof *network);
	if (!network) return NULL;
	network->host = host;
	network->nwid = nwid;
	pthread_mutex_init(&network->lock, NULL);
	return network;
}

uint64_t network_id(const struct network *network) { return network->nwid; }

const char *network_device(const struct network *network) {
	const struct tap *tap = network->tap;
	return tap ? tap_name(tap) : "";
}

unsigned int network_offloads(const struct network *network) {
	const struct tap *tap = network->tap;
	return tap ? tap_offloads(tap) : 0;
}

void network_deliver(struct network *network, uint64_t source, uint64_t destination, unsigned int type, const void *data,
                     unsigned int length) {
	unsigned char frame[ETHERNET_HEADER + 16384];
	struct tap *tap = network->tap;
	if (!tap || length > sizeof frame - ETHERNET_HEADER) return;
	put_number(frame, destination, 6);
	put_number(frame + 6, source, 6);
	frame[12] = (unsigned char)(type >> 8);
	frame[13] = (unsigned char)type;
	memcpy(frame + ETHERNET_HEADER, data, length);
	tap_write(tap, frame, ETHERNET_HEADER + length);
}

void network_deliver_frame(struct network *network, const unsigned char *frame, size_t length) {
	struct tap *tap = network->tap;
	if (tap) tap_write(tap, frame, length);
}

static void frame_in(void *context, const unsigned char *frame, size_t length) {
	struct network *network = context;
	if (length <= ETHERNET_HEADER || length - ETHERNET_HEADER > 10000) return;
	if (shortcut_out(network->nwid, frame, length, send_place)) return;
	shortcut_ask_out(network->host->core, now_ms(), network->nwid, frame, length);
}

static void *read_tap(void *argument) {
	struct network *network = argument;
	io_begin();
	if (!tap_receive(network->read, frame_in, network, io_flush, &network->stop))
		say("no memory for the frames of TAP %s", tap_name(network->read));
	else if (!network->stop)
		say("TAP %s was deleted; network %016llx carries nothing until ztnode is restarted", tap_name(network->read),
		    (unsigned long long)network->nwid);
	return NULL;
}

static void device_name(const struct network *network, char name[IFNAMSIZ]) {
	char path[4096];
	snprintf(path, sizeof path, "%s/devicemap", network->host->home);
	name[0] = 0;
	char *map = read_file(path, DEVICEMAP_LIMIT, NULL);
	if (map) devicemap_lookup(map, network->nwid, name);
	free(map);
}

/* Make the TAP and the thread that reads it. */
static bool open_device(struct network *network, const struct core_network *config) {
	unsigned char mac[6];
	char name[IFNAMSIZ];
	put_number(mac, config->mac, 6);
	device_name(network, name);
	struct tap *tap = tap_open(name, mac, network->mtu, network->host->offloads_off);
	if (!tap) return false;
	network->read = tap;
	int error = pthread_create(&network->reader, NULL, read_tap, network);
	if (error) {
		say("no thread for TAP %s: %s", tap_name(tap), strerror(error));
		tap_close(tap);
		return false;
	}
	network->tap = tap;
	say("network %016llx on device %s, mtu %u", (unsigned long long)network->nwid, tap_name(tap), network->mtu);
	return true;
}

bool network_configure(struct network *network, const struct core_network *config) {
	unsigned int mtu = config->mtu < 1280 ? 2800 : config->mtu > NETWORK_MTU_MOST ? NETWORK_MTU_MOST : config->mtu;
	pthread_mutex_lock(&network->lock);
	bool changed = network->mtu != mtu, good = true;
	network->mtu = mtu;
	if (!network->tap) good = open_device(network, config);
	else if (changed) tap_set_mtu(network->tap, mtu);
	pthread_mutex_unlock(&network->lock);
	return good;
}

static void add_group(struct network *network, uint64_t mac, uint32_t adi, bool own) {
	enum groups_answer answer = groups_add(&network->groups, mac, adi, own);
	if (answer == GROUPS_FRESH) ZT_Node_multicastSubscribe(network->host->core, NULL, network->nwid, mac, adi);
	if (answer != GROUPS_FULL || network->told_full) return;
	network->told_full = true;
	say("network %016llx: programs have joined more than %d multicast groups; the others are not subscribed to",
	    (unsigned long long)network->nwid, GROUPS_OTHERS_MOST);
}

/* ARP for an IPv4 address, neighbour discovery for an IPv6 address. */
static void add_groups_of(struct network *network, const struct sockaddr *address) {
	if (address->sa_family == AF_INET) {
		uint32_t adi = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
		add_group(network, 0xffffffffffffULL, adi, true);
	} else if (address->sa_family == AF_INET6) {
		const unsigned char *bytes = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr;
		add_group(network, 0x3333ff000000ULL | number_at(bytes + 13, 3), 0, true);
	}
}

void network_look_at_groups(struct network *network) {
	struct tap *tap = network->tap;
	if (!tap) return;
	groups_begin(&network->groups);
	struct ifaddrs *all = NULL;
	if (getifaddrs(&all) < 0) all = NULL;
	char device[IF_NAMESIZE], mac[16], line[256];
	for (struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
		device_of_address(entry->ifa_name, device);
		if (entry->ifa_addr && strcmp(device, tap_name(tap)) == 0) add_groups_of(network, entry->ifa_addr);
	}
	freeifaddrs(all);
	FILE *file = fopen("/proc/net/dev_mcast", "re");
	unsigned int lines = 0, all_lines = 0;
	while (file && lines < GROUPS_LOOKED_AT && all_lines < GROUPS_READ && fgets(line, sizeof line, file)) {
		uint64_t value;
		all_lines++;
		if (sscanf(line, "%*d %15s %*d %*d %15s", device, mac) != 2 || strcmp(device, tap_name(tap)) != 0) continue;
		lines++;
		if (strlen(mac) == 12 && parse_hex(mac, 12, &value)) add_group(network, value, 0, false);
	}
	if (file) fclose(file);
	struct group gone; /* those that were not read are not gone */
	while (all_lines < GROUPS_READ && groups_drop(&network->groups, &gone))
		ZT_Node_multicastUnsubscribe(network->host->core, network->nwid, gone.mac, gone.adi);
}

void network_free(struct network *network) {
	struct tap *tap = network->tap;
	if (tap) {
		network->stop = true;
		tap_wake(tap);
		pthread_join(network->reader, NULL);
		tap_close(tap);
	}
	pthread_mutex_destroy(&network->lock);
	free(network);
}
