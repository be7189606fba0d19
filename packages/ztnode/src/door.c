#include "door.h"

#include "caller.h"
#include "util.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RETRY_MS 1000   /* between two tries to have a TCP port that is taken */
#define CLOSE_SECONDS 3 /* for connections to end by themselves */
#define DOORS 3
#define NOBODY_KNOWN ((uid_t)-1) /* a user that the kernel does not tell; all of them share one user's places */

struct seat {
	bool used, cut;
	int fd;
	uid_t user;
	int64_t since; /* when the request that is under way began */
	struct door *door;
};

struct door {
	struct doors *all;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} address;
	socklen_t length;
	struct MHD_Daemon *daemon;
	bool waits;   /* for its port, which another program has */
	int netlink;  /* asks who calls; -1 where the kernel does not tell */
	uid_t judged; /* the user of the connection that is being accepted: of the thread of the daemon alone */
	struct seat seats[DOOR_PLACES];
};

struct doors {
	unsigned int port;
	MHD_AccessHandlerCallback on_request;
	MHD_RequestCompletedCallback on_end;
	void *context;
	struct door door[DOORS];
	pthread_mutex_t lock; /* of the seats, `stop` and `closing` */
	pthread_cond_t change;
	pthread_t keeper;
	bool stop;
	bool closing; /* nobody comes in any more, and who is in goes */
};

static bool is_local(const struct door *door) { return door->address.any.sa_family == AF_UNIX; }

static bool is_owner(uid_t user) { return user == 0 || user == geteuid(); }

/* -- who comes in; these run in the thread of the daemon, one connection after the other */

static enum MHD_Result on_knock(void *context, const struct sockaddr *caller, socklen_t length) {
	(void)length;
	struct door *door = context;
	pthread_mutex_lock(&door->all->lock);
	bool closing = door->all->closing;
	pthread_mutex_unlock(&door->all->lock);
	if (closing) return MHD_NO;
	if (is_local(door)) return MHD_YES; /* whoever may open it */
	door->judged = NOBODY_KNOWN;
	if (door->netlink >= 0 && caller_user(door->netlink, caller, &door->address.any, &door->judged) == CALLER_GONE)
		return MHD_NO;
	if (is_owner(door->judged)) return MHD_YES;
	size_t strangers = 0, same = 0;
	pthread_mutex_lock(&door->all->lock);
	for (size_t i = 0; i < DOOR_PLACES; i++) {
		const struct seat *seat = &door->seats[i];
		if (!seat->used || is_owner(seat->user)) continue;
		strangers++;
		same += seat->user == door->judged;
	}
	pthread_mutex_unlock(&door->all->lock);
	return strangers < DOOR_STRANGERS && same < DOOR_PER_USER ? MHD_YES : MHD_NO;
}

/* With the lock held. NULL when all are taken. */
static struct seat *free_seat(struct door *door) {
	for (size_t i = 0; i < DOOR_PLACES; i++)
		if (!door->seats[i].used) return &door->seats[i];
	return NULL;
}

static void sit_down(struct door *door, struct MHD_Connection *connection, void **place) {
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (!info) return;
	uid_t user = door->judged;
	if (is_local(door)) {
		struct ucred caller;
		socklen_t length = sizeof caller;
		bool known = getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &caller, &length) == 0;
		user = known ? caller.uid : NOBODY_KNOWN;
	}
	pthread_mutex_lock(&door->all->lock);
	struct seat *seat = free_seat(door);
	if (seat) *seat = (struct seat){true, false, info->connect_fd, user, clock_ms(), door};
	*place = seat;
	if (door->all->closing) shutdown(info->connect_fd, SHUT_RDWR);
	pthread_cond_signal(&door->all->change);
	pthread_mutex_unlock(&door->all->lock);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **place,
                          enum MHD_ConnectionNotificationCode code) {
	struct door *door = context;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		sit_down(door, connection, place);
		return;
	}
	struct seat *seat = *place;
	if (!seat) return;
	pthread_mutex_lock(&door->all->lock);
	seat->used = false; /* before the descriptor is closed, so that nobody cuts another one */
	if (door->all->closing) pthread_cond_signal(&door->all->change);
	pthread_mutex_unlock(&door->all->lock);
}

static struct seat *seat_of(struct MHD_Connection *connection) {
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

bool door_is_own(struct MHD_Connection *connection) {
	const struct seat *seat = seat_of(connection);
	return seat && is_local(seat->door) && is_owner(seat->user);
}

void door_request_over(struct MHD_Connection *connection) {
	struct seat *seat = seat_of(connection);
	if (!seat) return;
	pthread_mutex_lock(&seat->door->all->lock);
	seat->since = clock_ms();
	pthread_mutex_unlock(&seat->door->all->lock);
}

/* -- opening */

static int listen_at(struct door *door) {
	int fd = socket(door->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) return -1;
	int yes = 1;
	if (is_local(door)) {
		fchmod(fd, 0600);                     /* the name gets the mode that the socket has now */
		unlink(door->address.local.sun_path); /* of a process that was killed; the lock of the home says that it is gone */
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* over connections that have just ended */
		if (door->address.any.sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
	}
	if (bind(fd, &door->address.any, door->length) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* False with errno set. */
static bool open_door(struct door *door) {
	int fd = listen_at(door);
	if (fd < 0) return false;
	door->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | (door->address.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0), 0,
		on_knock, door, door->all->on_request, door->all->context, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)DOOR_PLACES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)DOOR_SECONDS,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, door, MHD_OPTION_NOTIFY_COMPLETED, door->all->on_end,
		door->all->context, MHD_OPTION_END);
	if (door->daemon) return true;
	close(fd);
	errno = ENOMEM;
	return false;
}

static void say_taken(const struct doors *doors, const char *rest) {
	char holder[200];
	port_holder("tcp", doors->port, holder, sizeof holder);
	say("TCP port %u is taken by %s; %s", doors->port, holder, rest);
}

/* -- the keeper: cuts who takes too long, and has a port again when it is free */

static void knock_again(struct doors *doors) {
	for (size_t i = 1; i < DOORS; i++) {
		struct door *door = &doors->door[i];
		if (!door->waits || !open_door(door)) continue;
		door->waits = false;
		say("TCP port %u is free again; the API listens there now", doors->port);
	}
}

/* Cut who is over time; returns when the next one will be, or INT64_MAX. Called with the lock. */
static int64_t cut_late(struct doors *doors, int64_t now) {
	int64_t next = INT64_MAX;
	for (size_t d = 0; d < DOORS; d++)
		for (size_t i = 0; i < DOOR_PLACES; i++) {
			struct seat *seat = &doors->door[d].seats[i];
			if (!seat->used || seat->cut) continue;
			int64_t due = seat->since + 1000 * DOOR_SECONDS;
			if (due > now) {
				if (due < next) next = due;
				continue;
			}
			shutdown(seat->fd, SHUT_RDWR); /* the daemon sees an end and closes it */
			seat->cut = true;
		}
	return next;
}

static void *keep(void *argument) {
	struct doors *doors = argument;
	pthread_mutex_lock(&doors->lock);
	while (!doors->stop) {
		int64_t now = clock_ms(), next = cut_late(doors, now);
		if (doors->door[1].waits || doors->door[2].waits) {
			pthread_mutex_unlock(&doors->lock); /* a daemon's thread may want it before its start returns */
			knock_again(doors);
			pthread_mutex_lock(&doors->lock);
			if (next > now + RETRY_MS) next = now + RETRY_MS;
		}
		if (doors->stop) break;
		if (next == INT64_MAX) {
			pthread_cond_wait(&doors->change, &doors->lock);
			continue;
		}
		struct timespec until = {next / 1000, next % 1000 * 1000000};
		pthread_cond_timedwait(&doors->change, &doors->lock, &until);
	}
	pthread_mutex_unlock(&doors->lock);
	return NULL;
}

/* -- all of them */

static bool open_local(struct door *door, const char *path) {
	struct sockaddr_un *address = &door->address.local;
	address->sun_family = AF_UNIX;
	door->length = sizeof *address;
	errno = ENAMETOOLONG;
	if (strlen(path) < sizeof address->sun_path) {
		strcpy(address->sun_path, path);
		if (open_door(door)) return true;
	}
	say("%s cannot be created (%s); the API is available only over TCP", path, strerror(errno));
	return false;
}

/* Whether there is a way in over TCP, or will be; false when there is none and `alone` says that it has to be. */
static bool open_tcp(struct doors *doors, bool alone) {
	doors->door[1].address.v4 = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons((uint16_t)doors->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	doors->door[1].length = sizeof doors->door[1].address.v4;
	doors->door[2].address.v6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)doors->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	doors->door[2].length = sizeof doors->door[2].address.v6;
	bool taken = false;
	for (size_t i = 1; i < DOORS; i++) {
		struct door *door = &doors->door[i];
		door->netlink = caller_open();
		if (open_door(door)) continue;
		if (i == 1 && alone) {
			say_taken(doors, "give another with -p");
			return false;
		}
		door->waits = errno == EADDRINUSE; /* else there is no such loopback here */
		taken |= door->waits;
	}
	if (taken) {
		char rest[sizeof doors->door[0].address.local.sun_path + 64];
		snprintf(rest, sizeof rest, "until it is free, the API is available only at %s",
		         doors->door[0].address.local.sun_path);
		say_taken(doors, rest);
	}
	return true;
}

struct doors *doors_open(const char *path, unsigned int port, MHD_AccessHandlerCallback on_request,
                         MHD_RequestCompletedCallback on_end, void *context) {
	struct doors *doors = calloc(1, sizeof *doors);
	if (!doors) return NULL;
	doors->port = port;
	doors->on_request = on_request;
	doors->on_end = on_end;
	doors->context = context;
	pthread_mutex_init(&doors->lock, NULL);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&doors->change, &attributes);
	pthread_condattr_destroy(&attributes);
	for (size_t i = 0; i < DOORS; i++) {
		doors->door[i].all = doors;
		doors->door[i].netlink = -1;
	}
	bool local = open_local(&doors->door[0], path);
	doors->stop = !open_tcp(doors, !local);
	bool kept = !doors->stop && pthread_create(&doors->keeper, NULL, keep, doors) == 0;
	if (kept) return doors;
	doors->stop = true;
	doors_close(doors);
	return NULL;
}

static bool empty(const struct doors *doors) {
	for (size_t d = 0; d < DOORS; d++)
		for (size_t i = 0; i < DOOR_PLACES; i++)
			if (doors->door[d].seats[i].used) return false;
	return true;
}

/* A daemon of libmicrohttpd that is stopped while it refuses a malformed request uses an answer that is not there (seen
 * with 0.9.75). So all connections are ended first, by themselves. */
static void see_off(struct doors *doors) {
	int64_t end = clock_ms() + 1000 * CLOSE_SECONDS;
	struct timespec until = {end / 1000, end % 1000 * 1000000};
	pthread_mutex_lock(&doors->lock);
	doors->closing = true;
	for (size_t d = 0; d < DOORS; d++)
		for (size_t i = 0; i < DOOR_PLACES; i++)
			if (doors->door[d].seats[i].used) shutdown(doors->door[d].seats[i].fd, SHUT_RDWR);
	while (!empty(doors) && pthread_cond_timedwait(&doors->change, &doors->lock, &until) == 0) continue;
	pthread_mutex_unlock(&doors->lock);
}

void doors_close(struct doors *doors) {
	pthread_mutex_lock(&doors->lock);
	bool kept = !doors->stop;
	doors->stop = true;
	pthread_cond_signal(&doors->change);
	pthread_mutex_unlock(&doors->lock);
	if (kept) pthread_join(doors->keeper, NULL);
	see_off(doors);
	for (size_t i = 0; i < DOORS; i++) {
		struct door *door = &doors->door[i];
		if (door->daemon) MHD_stop_daemon(door->daemon);
		if (door->daemon && is_local(door)) unlink(door->address.local.sun_path);
		if (door->netlink >= 0) close(door->netlink);
	}
	pthread_cond_destroy(&doors->change);
	pthread_mutex_destroy(&doors->lock);
	free(doors);
}
