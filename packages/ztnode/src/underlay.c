#include "underlay.h"

#include "offloads.h"
#include "route.h"
#include "util.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Since Linux 3.15; IPV6_PMTUDISC_OMIT has the same number. */
#ifndef IP_PMTUDISC_OMIT
#define IP_PMTUDISC_OMIT 5
#endif

#define SOCKET_BUFFER (4 << 20)
#define WAY_SETS 64 /* of a thread, each of */
#define WAYS 4
#define WAY_MS 20 /* how long it takes an answer of the routes for true */

struct underlay {
	unsigned int port, offloads;
	int wake;
	pthread_rwlock_t lock; /* of all that follows but the atomic ones */
	struct binding bindings[UNDERLAY_SOCKETS];
	size_t count;
	int *retired; /* sockets that the receiving thread closes: it may be about to read them */
	size_t retired_count;
	unsigned int *outward; /* numbers of the devices by which a socket may send that is bound to none */
	size_t outward_count;
	int64_t next_id;
	bool told_full;
	atomic_bool changed;
	_Atomic uint64_t refused;
};

/* Whether packets of a socket that is bound to no device may leave for an address. */
struct way {
	int64_t socket, until;
	struct sockaddr_storage to;
	bool open;
};
static _Thread_local struct way ways[WAY_SETS][WAYS];

struct underlay *underlay_open(unsigned int port, unsigned int offloads_off) {
	struct underlay *underlay = calloc(1, sizeof *underlay);
	if (!underlay) return NULL;
	underlay->port = port;
	underlay->offloads = OFFLOADS_UNDERLAY & ~offloads_off;
	underlay->next_id = 1;
	underlay->changed = true;
	underlay->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (underlay->wake < 0) {
		free(underlay);
		return NULL;
	}
	/* Several threads send all the time; one that changes the sockets must not wait until all of them pause at once. */
	pthread_rwlockattr_t attributes;
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&underlay->lock, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	return underlay;
}

/* With the lock held for writing. A number that was closed at once would soon be that of another file. */
static void retire(struct underlay *underlay, int fd) {
	int *more = realloc(underlay->retired, (underlay->retired_count + 1) * sizeof *more);
	if (!more) return; /* it stays open, and is read no more */
	underlay->retired = more;
	more[underlay->retired_count++] = fd;
}

/* With the lock held for writing. */
static void close_retired(struct underlay *underlay) {
	while (underlay->retired_count) close(underlay->retired[--underlay->retired_count]);
	free(underlay->retired);
	underlay->retired = NULL;
}

unsigned int underlay_offloads(const struct underlay *underlay) { return underlay->offloads; }

void underlay_close(struct underlay *underlay) {
	if (!underlay) return;
	close_retired(underlay);
	for (size_t i = 0; i < underlay->count; i++) close(underlay->bindings[i].fd);
	close(underlay->wake);
	pthread_rwlock_destroy(&underlay->lock);
	free(underlay->outward);
	free(underlay);
}

/* -- opening */

/* The MTU of the device counts alone. What ICMP says of smaller ones on the way ("fragmentation needed", "packet too big")
 * anybody can send in the name of a router, and the kernel believes it for ten minutes: it would cut every packet in
 * pieces and refuse segments. Without DF, routers of IPv4 still cut what is too big for them; those of IPv6 never do. */
static void ignore_path_mtu(int fd, int family) {
	int omit = IP_PMTUDISC_OMIT;
	if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &omit, sizeof omit);
	else setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &omit, sizeof omit);
}

/* -1 with errno set. */
static int open_socket(const struct binding *binding, unsigned int offloads) {
	int fd = socket(binding->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) return -1;
	int on = 1, joined = offloads & OFFLOAD_UNDERLAY_GRO ? 1 : 0, size = SOCKET_BUFFER;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	if (binding->address.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	ignore_path_mtu(fd, binding->address.ss_family);
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &joined, sizeof joined); /* without it packets just come one by one */
	if ((*binding->device &&
	     setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, binding->device, (socklen_t)strlen(binding->device)) < 0) ||
	    bind(fd, (const struct sockaddr *)&binding->address, address_size(&binding->address)) < 0) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

/* Known on a link or this host alone; the device of a VRF has 127.0.0.1 and ::1 and is no loopback by its flags. */
static bool is_of_link(const struct sockaddr_storage *address) {
	if (address->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	const struct in6_addr *own = &((const struct sockaddr_in6 *)address)->sin6_addr;
	return IN6_IS_ADDR_LINKLOCAL(own) || IN6_IS_ADDR_LOOPBACK(own);
}

/* 169.254.0.0/16: no route leads to one of lo. */
static bool is_self_assigned(const struct sockaddr_storage *address) {
	return address->ss_family == AF_INET && ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 16 == 0xa9fe;
}

/* How an address is used, if at all. */
enum use { UNUSED, BY_DEVICE, BY_ROUTES };

/* Addresses of lo and of dummies are those of the router as a whole: routes lead to them and away from them, by whatever
 * device. They are used where the settings list them. */
static enum use use_of(const struct settings *settings, const struct ifaddrs *entry, const char *device,
                       const struct sockaddr_storage *address) {
	bool listed = false, loopback = entry->ifa_flags & IFF_LOOPBACK;
	for (size_t i = 0; i < settings->bind_count; i++) listed |= same_address(&settings->binds[i], address);
	if (!(entry->ifa_flags & IFF_UP) || is_of_link(address) || address_excluded(settings, address)) return UNUSED;
	if (listed && !settings->interface_count && (loopback || interface_is_dummy(device)))
		return is_self_assigned(address) ? UNUSED : BY_ROUTES;
	if (loopback || interface_excluded(settings, device)) return UNUSED;
	return listed || !settings->bind_count ? BY_DEVICE : UNUSED;
}

/* With the lock held for writing. Binds to what `want` says unless it is there. */
static bool bind_one(struct underlay *underlay, const struct binding *want, bool *keep, bool *taken) {
	for (size_t i = 0; i < underlay->count; i++) {
		const struct binding *known = &underlay->bindings[i];
		if (same_address(&known->address, &want->address) && strcmp(known->device, want->device) == 0 &&
		    known->index == want->index) {
			keep[i] = true;
			return false;
		}
	}
	if (underlay->count == UNDERLAY_SOCKETS) {
		if (!underlay->told_full)
			say("this router has more than %d addresses, and those on %s are not used; choose a device or addresses",
			    UNDERLAY_SOCKETS, want->device);
		underlay->told_full = true;
		return false;
	}
	struct binding *fresh = &underlay->bindings[underlay->count];
	*fresh = *want;
	fresh->fd = open_socket(fresh, underlay->offloads);
	if (fresh->fd < 0) {
		if (errno == EADDRINUSE) *taken = true;
		return false; /* a tentative or vanished address: the next address event tries again */
	}
	fresh->id = underlay->next_id++;
	keep[underlay->count++] = true;
	return true;
}

static void set_port(struct sockaddr_storage *address, unsigned int port) {
	if (address->ss_family == AF_INET) ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
	else ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
}

/* The address of an entry with our port; false where it is no address of IP. */
static bool address_of(const struct ifaddrs *entry, unsigned int port, struct sockaddr_storage *address) {
	const struct sockaddr *given = entry->ifa_addr;
	if (!given || (given->sa_family != AF_INET && given->sa_family != AF_INET6)) return false;
	*address = (struct sockaddr_storage){0};
	memcpy(address, given, given->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	set_port(address, port);
	return true;
}

/* Whether an address is used by a device that has it, too. */
static bool is_on_a_device(const struct settings *settings, const struct ifaddrs *all,
                           const struct sockaddr_storage *address) {
	for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
		struct sockaddr_storage other;
		char device[IFNAMSIZ];
		device_of_address(entry->ifa_name, device);
		if (address_of(entry, 0, &other) && same_address(&other, address) &&
		    use_of(settings, entry, device, &other) == BY_DEVICE)
			return true;
	}
	return false;
}

/* With the lock held for writing. Those that the settings exclude, such as a bundle's, would be a tunnel in the tunnel; by
 * the loopback device leaves what is for this host. */
static void know_outward(struct underlay *underlay, const struct settings *settings, const struct ifaddrs *all) {
	size_t most = 0;
	for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) most++;
	unsigned int *outward = realloc(underlay->outward, (most + 1) * sizeof *outward);
	underlay->outward_count = 0;
	if (!outward) return;
	underlay->outward = outward;
	for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
		if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_PACKET) continue;
		struct sockaddr_ll link;
		memcpy(&link, entry->ifa_addr, sizeof link);
		if (entry->ifa_flags & IFF_LOOPBACK || !interface_excluded(settings, entry->ifa_name))
			outward[underlay->outward_count++] = (unsigned int)link.sll_ifindex;
	}
}

/* With the lock held for writing: one round over all addresses, for one of their uses. */
static bool bind_all(struct underlay *underlay, const struct settings *settings, const struct ifaddrs *all, enum use use,
                     bool *keep, bool *taken) {
	bool changed = false;
	for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
		struct binding want = {.asks = use == BY_DEVICE && !(entry->ifa_flags & IFF_NOARP)};
		char device[IFNAMSIZ];
		device_of_address(entry->ifa_name, device);
		if (!address_of(entry, underlay->port, &want.address) || use_of(settings, entry, device, &want.address) != use)
			continue;
		if (use == BY_DEVICE) {
			memcpy(want.device, device, sizeof device);
			want.index = if_nametoindex(device);
		} else if (is_on_a_device(settings, all, &want.address)) {
			continue;
		}
		changed |= bind_one(underlay, &want, keep, taken);
	}
	return changed;
}

bool underlay_rebind(struct underlay *underlay, const struct settings *settings, bool *taken) {
	struct ifaddrs *all;
	bool changed = false, keep[UNDERLAY_SOCKETS] = {false};
	*taken = false;
	if (getifaddrs(&all) < 0) return false;
	pthread_rwlock_wrlock(&underlay->lock);
	changed |= bind_all(underlay, settings, all, BY_DEVICE, keep, taken);
	if (settings->bind_count) {
		know_outward(underlay, settings, all);
		changed |= bind_all(underlay, settings, all, BY_ROUTES, keep, taken);
	}
	for (size_t i = 0; i < underlay->count;) {
		if (keep[i]) {
			i++;
			continue;
		}
		retire(underlay, underlay->bindings[i].fd);
		underlay->bindings[i] = underlay->bindings[--underlay->count];
		keep[i] = keep[underlay->count];
		changed = true;
	}
	pthread_rwlock_unlock(&underlay->lock);
	freeifaddrs(all);
	if (changed) {
		underlay->changed = true;
		underlay_wake(underlay);
	}
	return changed;
}

/* -- looking */

/* With the lock held. */
static struct binding *find(struct underlay *underlay, int64_t id) {
	for (size_t i = 0; i < underlay->count; i++)
		if (underlay->bindings[i].id == id) return &underlay->bindings[i];
	return NULL;
}

size_t underlay_addresses(struct underlay *underlay, struct sockaddr_storage *addresses, size_t most) {
	pthread_rwlock_rdlock(&underlay->lock);
	size_t count = underlay->count < most ? underlay->count : most;
	for (size_t i = 0; i < count; i++) addresses[i] = underlay->bindings[i].address;
	pthread_rwlock_unlock(&underlay->lock);
	return count;
}

bool underlay_has(struct underlay *underlay, int64_t id) {
	pthread_rwlock_rdlock(&underlay->lock);
	bool found = find(underlay, id) != NULL;
	pthread_rwlock_unlock(&underlay->lock);
	return found;
}

void underlay_hold(struct underlay *underlay) { pthread_rwlock_rdlock(&underlay->lock); }
void underlay_release(struct underlay *underlay) { pthread_rwlock_unlock(&underlay->lock); }

/* With the lock held: whether the routes lead there by a device of the underlay. */
static bool leaves(const struct underlay *underlay, int routes, const struct binding *binding,
                   const struct sockaddr_storage *to) {
	unsigned int device = route_device(routes, &binding->address, to);
	for (size_t i = 0; i < underlay->outward_count; i++)
		if (underlay->outward[i] == device) return true;
	return false;
}

/* The way of this thread from a socket to an address; where it has none, the one that it has not asked for longest. */
static struct way *way_of(const struct binding *binding, const struct sockaddr_storage *to) {
	uint32_t hash = (uint32_t)binding->id;
	for (socklen_t i = sizeof to->ss_family; i < address_size(to); i++)
		hash = (hash ^ ((const unsigned char *)to)[i]) * 2654435761u;
	struct way *set = ways[(hash >> 16) % WAY_SETS], *oldest = set;
	for (unsigned int i = 0; i < WAYS; i++) {
		if (set[i].socket == binding->id && same_endpoint(&set[i].to, to)) return &set[i];
		if (set[i].until < oldest->until) oldest = &set[i];
	}
	return oldest;
}

/* The same of each packet, by what this thread has asked lately. */
static bool may_leave(const struct underlay *underlay, const struct binding *binding, const struct sockaddr_storage *to) {
	struct way *way = way_of(binding, to);
	int64_t now = clock_ms();
	if (way->socket == binding->id && way->until > now && same_endpoint(&way->to, to)) return way->open;
	int routes = route_open();
	*way = (struct way){.socket = binding->id, .until = now + WAY_MS, .open = leaves(underlay, routes, binding, to)};
	memcpy(&way->to, to, address_size(to));
	if (routes >= 0) close(routes);
	return way->open;
}

/* Whether to look for a host there. */
static bool leads(const struct underlay *underlay, int routes, const struct binding *binding,
                  const struct sockaddr_storage *to) {
	if (binding->address.ss_family != to->ss_family) return false;
	if (!*binding->device) return leaves(underlay, routes, binding, to);
	return !binding->asks || route_leads(routes, binding->index, &binding->address, to);
}

struct binding *underlay_binding(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to) {
	struct binding *binding = find(underlay, id);
	if (binding) return *binding->device || may_leave(underlay, binding, to) ? binding : NULL;
	int routes = route_open();
	for (size_t i = 0; !binding && i < underlay->count; i++)
		if (leads(underlay, routes, &underlay->bindings[i], to)) binding = &underlay->bindings[i];
	if (routes >= 0) close(routes);
	return binding;
}

size_t underlay_ids(struct underlay *underlay, const struct sockaddr_storage *to, int64_t ids[UNDERLAY_SOCKETS]) {
	size_t count = 0;
	int routes = route_open();
	pthread_rwlock_rdlock(&underlay->lock);
	for (size_t i = 0; i < underlay->count; i++)
		if (leads(underlay, routes, &underlay->bindings[i], to)) ids[count++] = underlay->bindings[i].id;
	pthread_rwlock_unlock(&underlay->lock);
	if (routes >= 0) close(routes);
	return count;
}

/* With the lock held: whether some other device than that of a socket is in use. */
static bool has_choice(const struct underlay *underlay, const struct binding *than) {
	for (size_t i = 0; i < underlay->count; i++)
		if (underlay->bindings[i].index != than->index &&
		    underlay->bindings[i].address.ss_family == than->address.ss_family)
			return true;
	return false;
}

bool underlay_has_choice(struct underlay *underlay, int64_t id) {
	pthread_rwlock_rdlock(&underlay->lock);
	const struct binding *binding = find(underlay, id);
	bool choice = binding && has_choice(underlay, binding);
	pthread_rwlock_unlock(&underlay->lock);
	return choice;
}

/* With the lock held: the first socket on a device, of a family; 0 where there is none. */
static int64_t socket_on(const struct underlay *underlay, unsigned int device, int family) {
	for (size_t i = 0; device && i < underlay->count; i++)
		if (underlay->bindings[i].index == device && underlay->bindings[i].address.ss_family == family)
			return underlay->bindings[i].id;
	return 0;
}

int64_t underlay_better(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to) {
	int64_t better = 0;
	int routes = route_open();
	pthread_rwlock_rdlock(&underlay->lock);
	const struct binding *now = find(underlay, id);
	if (now && *now->device && now->address.ss_family == to->ss_family && has_choice(underlay, now)) {
		struct sockaddr_storage any = {.ss_family = to->ss_family};
		set_port(&any, underlay->port);
		unsigned int device = route_device(routes, &any, to);
		/* In a full tunnel it leads into the tunnel, but for what has an address of the underlay. */
		if (!socket_on(underlay, device, to->ss_family)) device = route_device(routes, &now->address, to);
		if (device != now->index) better = socket_on(underlay, device, to->ss_family);
	}
	pthread_rwlock_unlock(&underlay->lock);
	if (routes >= 0) close(routes);
	return better;
}

uint64_t underlay_refused(const struct underlay *underlay) {
	return atomic_load_explicit(&underlay->refused, memory_order_relaxed);
}

void underlay_count_refusal(struct underlay *underlay) {
	atomic_fetch_add_explicit(&underlay->refused, 1, memory_order_relaxed);
}

int underlay_wake_fd(const struct underlay *underlay) { return underlay->wake; }

bool underlay_changed(const struct underlay *underlay) { return underlay->changed; }

size_t underlay_sockets(struct underlay *underlay, int fds[UNDERLAY_SOCKETS], int64_t ids[UNDERLAY_SOCKETS]) {
	pthread_rwlock_wrlock(&underlay->lock);
	underlay->changed = false;
	close_retired(underlay);
	size_t count = underlay->count;
	for (size_t i = 0; i < count; i++) {
		fds[i] = underlay->bindings[i].fd;
		ids[i] = underlay->bindings[i].id;
	}
	pthread_rwlock_unlock(&underlay->lock);
	return count;
}

void underlay_wake(struct underlay *underlay) {
	uint64_t one = 1;
	(void)!write(underlay->wake, &one, sizeof one);
}
