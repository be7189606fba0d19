/* Asking the kernel by which device it would send: its routes and rules, without those that a socket bound to a device
 * passes by. */
#ifndef ZTNODE_ROUTE_H
#define ZTNODE_ROUTE_H

#include <stdbool.h>
#include <sys/socket.h>

/* A socket for the questions, to be closed; -1 where there is none: then nobody knows. */
int route_open(void);
/* Whether a route leads to an address with its port by a device, for a socket there with this address and port. Without
 * one the kernel takes an IPv4 address for one of the device's own link, and asks there who has it. True where nobody
 * knows. */
bool route_leads(int fd, unsigned int device, const struct sockaddr_storage *from, const struct sockaddr_storage *to);
/* Number of the device by which a socket at this address sends that is bound to none; 0 where no route leads there, and
 * where nobody knows. */
unsigned int route_device(int fd, const struct sockaddr_storage *from, const struct sockaddr_storage *to);

#endif
