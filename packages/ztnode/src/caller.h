/* Whose sockets these are, as the kernel knows it. */
#ifndef ZTNODE_CALLER_H
#define ZTNODE_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* A socket of NETLINK_SOCK_DIAG, or -1 where the kernel has none. */
int caller_open(void);

enum caller { CALLER_KNOWN, CALLER_GONE, CALLER_UNKNOWN };

/* The user of the TCP socket with the address `own` that is connected to `other`, on this machine. GONE when there is
 * none any more, UNKNOWN when the kernel does not tell. */
enum caller caller_user(int netlink, const struct sockaddr *own, const struct sockaddr *other, uid_t *user);

/* Who holds a port: "python3 (pid 812) of user nobody", as far as this process may know. `protocol` is "tcp" or "udp". */
void port_holder(const char *protocol, unsigned int port, char *text, size_t size);

#endif
