#include "underlay.h"

#include "offloads.h"
#include "route.h"
#include "util.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/udp.h>
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

struct underlay {
	unsigned int port, offloads;
	int wake;
	pthread_rwlock_t lock; /* of all that follows but the atomic ones */
	struct binding bindings[UNDERLAY_SOCKETS];
	size_t count;
	int *retired; /* sockets that the receiving thread closes: it may be about to read them */
	size_t retired_count;
	int64_t next_id;
	bool told_full;
	atomic_bool changed;
	_Atomic uint64_t refused;
};

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
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, binding->device, (socklen_t)strlen(binding->device)) < 0 ||
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

static bool wanted(const struct settings *settings, const struct ifaddrs *entry, const char *device,
                   const struct sockaddr_storage *address) {
	if (!(entry->ifa_flags & IFF_UP) || entry->ifa_flags & IFF_LOOPBACK) return false;
	if (interface_excluded(settings, device) || address_excluded(settings, address)) return false;
	if (is_of_link(address)) return false;
	for (size_t i = 0; i < settings->bind_count; i++)
		if (same_address(&settings->binds[i], address)) return true;
	return settings->bind_count == 0;
}

/* With the lock held for writing. */
static bool bind_one(struct underlay *underlay, const char *device, bool asks, const struct sockaddr_storage *address,
                     bool *keep, bool *taken) {
	unsigned int index = if_nametoindex(device);
	for (size_t i = 0; i < underlay->count; i++) {
		const struct binding *known = &underlay->bindings[i];
		if (same_address(&known->address, address) && strcmp(known->device, device) == 0 && known->index == index) {
			keep[i] = true;
			return false;
		}
	}
	if (underlay->count == UNDERLAY_SOCKETS) {
		if (!underlay->told_full)
			say("this router has more than %d addresses, and those on %s are not used; choose a device or addresses",
			    UNDERLAY_SOCKETS, device);
		underlay->told_full = true;
		return false;
	}
	struct binding *fresh = &underlay->bindings[underlay->count];
	*fresh = (struct binding){.address = *address, .index = index, .asks = asks};
	snprintf(fresh->device, sizeof fresh->device, "%s", device);
	fresh->fd = open_socket(fresh, underlay->offloads);
	if (fresh->fd < 0) {
		if (errno == EADDRINUSE) *taken = true;
		return false; /* a tentative or vanished address: the next address event tries again */
	}
	fresh->id = underlay->next_id++;
	keep[underlay->count++] = true;
	return true;
}

/* The address of an entry with our port; false where it is no address of IP. */
static bool address_of(const struct ifaddrs *entry, unsigned int port, struct sockaddr_storage *address) {
	const struct sockaddr *given = entry->ifa_addr;
	if (!given || (given->sa_family != AF_INET && given->sa_family != AF_INET6)) return false;
	*address = (struct sockaddr_storage){0};
	memcpy(address, given, given->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	if (address->ss_family == AF_INET) ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
	else ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
	return true;
}

bool underlay_rebind(struct underlay *underlay, const struct settings *settings, bool *taken) {
	struct ifaddrs *all;
	bool changed = false, keep[UNDERLAY_SOCKETS] = {false};
	*taken = false;
	if (getifaddrs(&all) < 0) return false;
	pthread_rwlock_wrlock(&underlay->lock);
	for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
		struct sockaddr_storage address;
		char device[IFNAMSIZ];
		device_of_address(entry->ifa_name, device);
		if (address_of(entry, underlay->port, &address) && wanted(settings, entry, device, &address))
			changed |= bind_one(underlay, device, !(entry->ifa_flags & IFF_NOARP), &address, keep, taken);
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

/* Whether to look for a host there. */
static bool leads(int routes, const struct binding *binding, const struct sockaddr_storage *to) {
	return binding->address.ss_family == to->ss_family &&
	       (!binding->asks || route_leads(routes, binding->index, &binding->address, to));
}

struct binding *underlay_binding(struct underlay *underlay, int64_t id, const struct sockaddr_storage *to) {
	struct binding *binding = find(underlay, id);
	if (binding) return binding;
	int routes = route_open();
	for (size_t i = 0; !binding && i < underlay->count; i++)
		if (leads(routes, &underlay->bindings[i], to)) binding = &underlay->bindings[i];
	if (routes >= 0) close(routes);
	return binding;
}

size_t underlay_ids(struct underlay *underlay, const struct sockaddr_storage *to, int64_t ids[UNDERLAY_SOCKETS]) {
	size_t count = 0;
	int routes = route_open();
	pthread_rwlock_rdlock(&underlay->lock);
	for (size_t i = 0; i < underlay->count; i++)
		if (leads(routes, &underlay->bindings[i], to)) ids[count++] = underlay->bindings[i].id;
	pthread_rwlock_unlock(&underlay->lock);
	if (routes >= 0) close(routes);
	return count;
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
