#include "caller.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int caller_open(void) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG); }

static void put_address(const struct sockaddr *address, __be16 *port, __be32 where[4]) {
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
		*port = v4->sin_port;
		where[0] = v4->sin_addr.s_addr;
	} else {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
		*port = v6->sin6_port;
		memcpy(where, &v6->sin6_addr, 16);
	}
}

/* The kernel puts the answer into the socket before send() returns, so nothing is waited for. */
enum caller caller_user(int netlink, const struct sockaddr *own, const struct sockaddr *other, uid_t *user) {
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 body;
	} question = {
		.header = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = (unsigned char)own->sa_family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u}};
	struct inet_diag_sockid *id = &question.body.id;
	put_address(own, &id->idiag_sport, id->idiag_src);
	put_address(other, &id->idiag_dport, id->idiag_dst);
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	while (recv(netlink, &answer, sizeof answer, MSG_DONTWAIT) > 0) continue; /* what an interrupted question has left */
	if (send(netlink, &question, sizeof question, 0) < 0) return CALLER_UNKNOWN;
	ssize_t length = recv(netlink, &answer, sizeof answer, MSG_DONTWAIT);
	if (length < (ssize_t)NLMSG_HDRLEN || answer.header.nlmsg_len > (size_t)length) return CALLER_UNKNOWN;
	if (answer.header.nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *error = NLMSG_DATA(&answer.header);
		return length >= (ssize_t)NLMSG_LENGTH(sizeof *error) && error->error == -ENOENT ? CALLER_GONE : CALLER_UNKNOWN;
	}
	const struct inet_diag_msg *found = NLMSG_DATA(&answer.header);
	if (length < (ssize_t)NLMSG_LENGTH(sizeof *found)) return CALLER_UNKNOWN;
	/* A socket that its process has closed belongs to nobody, and the kernel says 0; so it does of a listener there. */
	if (found->id.idiag_dport != id->idiag_dport || found->idiag_state == TCP_LISTEN || !found->idiag_inode)
		return CALLER_GONE;
	*user = found->idiag_uid;
	return CALLER_KNOWN;
}

/* The process that has a socket open; 0 when this process may not know. */
static long process_with(unsigned long inode, char name[32]) {
	char wanted[48];
	snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
	long found = 0;
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	while (!found && proc && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0])) continue;
		char path[600];
		snprintf(path, sizeof path, "/proc/%s/fd", entry->d_name);
		DIR *descriptors = opendir(path);
		struct dirent *descriptor;
		while (!found && descriptors && (descriptor = readdir(descriptors))) {
			char link[1024], target[64];
			snprintf(link, sizeof link, "%s/%s", path, descriptor->d_name);
			ssize_t length = readlink(link, target, sizeof target - 1);
			if (length <= 0) continue;
			target[length] = 0;
			if (strcmp(target, wanted) == 0) found = atol(entry->d_name);
		}
		if (descriptors) closedir(descriptors);
	}
	if (proc) closedir(proc);
	if (!found) return 0;
	char path[64];
	snprintf(path, sizeof path, "/proc/%ld/comm", found);
	FILE *comm = fopen(path, "re");
	if (!comm || !fgets(name, 32, comm)) strcpy(name, "?");
	if (comm) fclose(comm);
	for (char *c = name; *c; c++) /* a program may call itself anything */
		if (!isgraph((unsigned char)*c)) *c = *c == '\n' ? 0 : '?';
	return found;
}

static bool socket_at(const char *table, unsigned int port, bool listening, unsigned int *user, unsigned long *inode) {
	FILE *file = fopen(table, "re");
	char line[512];
	bool found = false;
	while (!found && file && fgets(line, sizeof line, file)) {
		unsigned int at, state;
		if (sscanf(line, " %*d: %*[0-9A-F]:%X %*s %X %*s %*s %*s %u %*d %lu", &at, &state, user, inode) != 4 || at != port)
			continue;
		found = !listening || state == TCP_LISTEN;
	}
	if (file) fclose(file);
	return found;
}

void port_holder(const char *protocol, unsigned int port, char *text, size_t size) {
	unsigned int user;
	unsigned long inode;
	char path[40], name[32] = "";
	bool tcp = strcmp(protocol, "tcp") == 0, found = false;
	for (int v6 = 0; !found && v6 < 2; v6++) {
		snprintf(path, sizeof path, "/proc/self/net/%s%s", protocol, v6 ? "6" : "");
		found = socket_at(path, port, tcp, &user, &inode);
	}
	if (!found) {
		snprintf(text, size, "another program");
		return;
	}
	long pid = process_with(inode, name);
	char who[64];
	if (pid) snprintf(who, sizeof who, "%s (pid %ld)", name, pid);
	else snprintf(who, sizeof who, "another program");
	struct passwd space, *entry = NULL;
	char texts[4096];
	if (getpwuid_r(user, &space, texts, sizeof texts, &entry) == 0 && entry)
		snprintf(text, size, "%s of user %s", who, entry->pw_name);
	else snprintf(text, size, "%s of user %u", who, user);
}
