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

/* Type of the kernel's answer, which is there when the question has been sent; 0 without one. */
static unsigned int ask(int fd, const struct question *question, union answer *answer) {
	if (fd < 0 || send(fd, question, question->header.nlmsg_len, 0) < 0) return 0;
	ssize_t size = recv(fd, answer, sizeof *answer, MSG_DONTWAIT);
	return size >= (ssize_t)sizeof answer->header && NLMSG_OK(&answer->header, (size_t)size) ? answer->header.nlmsg_type
	                                                                                         : 0;
}

/* By which route UDP goes from one address to another, both with ports. */
static struct question question_of(const struct sockaddr_storage *from, const struct sockaddr_storage *to) {
	const struct sockaddr_in *here = (const struct sockaddr_in *)from, *there = (const struct sockaddr_in *)to;
	const struct sockaddr_in6 *here6 = (const struct sockaddr_in6 *)from, *there6 = (const struct sockaddr_in6 *)to;
	bool four = to->ss_family == AF_INET;
	unsigned short size = four ? sizeof there->sin_addr : sizeof there6->sin6_addr;
	unsigned char udp = IPPROTO_UDP, bits = (unsigned char)(size * 8);
	struct question question = {
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof question.route),
	               .nlmsg_type = RTM_GETROUTE,
	               .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = (unsigned char)to->ss_family, .rtm_dst_len = bits, .rtm_src_len = bits},
	};
	put(&question, RTA_DST, four ? (const void *)&there->sin_addr : &there6->sin6_addr, size);
	put(&question, RTA_SRC, four ? (const void *)&here->sin_addr : &here6->sin6_addr, size);
	put(&question, IP_PROTOCOL, &udp, sizeof udp);
	put(&question, SOURCE_PORT, four ? &here->sin_port : &here6->sin6_port, sizeof here->sin_port);
	put(&question, DESTINATION_PORT, four ? &there->sin_port : &there6->sin6_port, sizeof there->sin_port);
	return question;
}

bool route_leads(int fd, unsigned int device, const struct sockaddr_storage *from, const struct sockaddr_storage *to) {
	if (to->ss_family != AF_INET) return true; /* of IPv6 it sends nothing without a route */
	union answer answer = {.bytes = {0}};
	struct nlmsgerr error;
	struct question question = question_of(from, to);
	question.route.rtm_flags = RTM_F_FIB_MATCH;
	put(&question, RTA_OIF, &device, sizeof device);
	if (ask(fd, &question, &answer) != NLMSG_ERROR) return true;
	memcpy(&error, NLMSG_DATA(&answer.header), sizeof error);
	return error.error != -EHOSTUNREACH && error.error != -ENETUNREACH && error.error != -EACCES;
}

unsigned int route_device(int fd, const struct sockaddr_storage *from, const struct sockaddr_storage *to) {
	union answer answer = {.bytes = {0}};
	struct question question = question_of(from, to);
	unsigned int device = 0;
	if (ask(fd, &question, &answer) != RTM_NEWROUTE) return 0;
	int left = (int)RTM_PAYLOAD(&answer.header);
	for (const struct rtattr *item = RTM_RTA(NLMSG_DATA(&answer.header)); RTA_OK(item, left); item = RTA_NEXT(item, left))
		if (item->rta_type == RTA_OIF && RTA_PAYLOAD(item) == sizeof device) memcpy(&device, RTA_DATA(item), sizeof device);
	return device;
}
