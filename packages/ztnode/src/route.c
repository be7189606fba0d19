#include "route.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Since Linux 4.13 and 4.19. */
#ifndef RTM_F_FIB_MATCH
#define RTM_F_FIB_MATCH 0x2000
#endif
enum { IP_PROTOCOL = 27, SOURCE_PORT = 28, DESTINATION_PORT = 29 };

struct question {
	struct nlmsghdr header;
	struct rtmsg route;
	unsigned char attributes[128];
};
union answer {
	struct nlmsghdr header;
	unsigned char bytes[4096];
};

int route_open(void) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE); }

static void put(struct question *question, unsigned short type, const void *value, unsigned short size) {
	struct rtattr attribute = {.rta_type = type, .rta_len = (unsigned short)RTA_LENGTH(size)};
	unsigned char *at = (unsigned char *)question + NLMSG_ALIGN(question->header.nlmsg_len);
	memcpy(at, &attribute, sizeof attribute);
	memcpy(at + RTA_LENGTH(0), value, size);
	question->header.nlmsg_len = NLMSG_ALIGN(question->header.nlmsg_len) + RTA_ALIGN(attribute.rta_len);
}

static const void *ip_of(const struct sockaddr_storage *address) {
	return address->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
	                                      : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
}

/* In network byte order; at the same place in both families. */
static uint16_t port_of(const struct sockaddr_storage *address) { return ((const struct sockaddr_in *)address)->sin_port; }

static struct question about(const struct sockaddr_storage *to, uint16_t port) {
	bool six = to->ss_family == AF_INET6;
	unsigned short size = six ? 16 : 4;
	unsigned char udp = IPPROTO_UDP;
	uint16_t there = port_of(to);
	struct question question = {
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof question.route),
	               .nlmsg_type = RTM_GETROUTE,
	               .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = (unsigned char)to->ss_family, .rtm_dst_len = (unsigned char)(8 * size)},
	};
	put(&question, RTA_DST, ip_of(to), size);
	put(&question, IP_PROTOCOL, &udp, sizeof udp);
	put(&question, SOURCE_PORT, &port, sizeof port);
	put(&question, DESTINATION_PORT, &there, sizeof there);
	return question;
}

/* Type of the kernel's answer, which is there when the question has been sent; 0 without one. */
static unsigned int ask(int fd, const struct question *question, union answer *answer) {
	if (fd < 0 || send(fd, question, question->header.nlmsg_len, 0) < 0) return 0;
	ssize_t size = recv(fd, answer, sizeof *answer, MSG_DONTWAIT);
	return size >= (ssize_t)sizeof answer->header && NLMSG_OK(&answer->header, (size_t)size) ? answer->header.nlmsg_type
	                                                                                         : 0;
}

bool route_leads(int fd, unsigned int device, const struct sockaddr_storage *from, const struct sockaddr_storage *to) {
	if (to->ss_family != AF_INET) return true; /* of IPv6 it sends nothing without a route */
	struct question question = about(to, port_of(from));
	union answer answer = {.bytes = {0}};
	struct nlmsgerr error;
	question.route.rtm_flags = RTM_F_FIB_MATCH;
	question.route.rtm_src_len = 32;
	put(&question, RTA_SRC, ip_of(from), 4);
	put(&question, RTA_OIF, &device, sizeof device);
	if (ask(fd, &question, &answer) != NLMSG_ERROR) return true;
	memcpy(&error, NLMSG_DATA(&answer.header), sizeof error);
	return error.error != -EHOSTUNREACH && error.error != -ENETUNREACH && error.error != -EACCES;
}

unsigned int route_device(int fd, unsigned int port, const struct sockaddr_storage *to) {
	struct question question = about(to, htons((uint16_t)port));
	union answer answer;
	unsigned int device = 0;
	if (ask(fd, &question, &answer) != RTM_NEWROUTE) return 0;
	int left = (int)RTM_PAYLOAD(&answer.header);
	for (struct rtattr *at = RTM_RTA((struct rtmsg *)NLMSG_DATA(&answer.header)); RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == RTA_OIF && RTA_PAYLOAD(at) == sizeof device) memcpy(&device, RTA_DATA(at), sizeof device);
	return device;
}
