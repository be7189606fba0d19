/* The ways in to the local API: a socket in the file system, which is the owner's alone, and TCP on loopback, where anybody
 * may call. A crowd on TCP takes no place at the socket, nobody else can take all places on TCP, and a request that is
 * not over in time is cut. */
#ifndef ZTNODE_DOOR_H
#define ZTNODE_DOOR_H

#include <microhttpd.h>
#include <stdbool.h>

#define DOOR_PLACES 32    /* connections at once, of each way in */
#define DOOR_STRANGERS 24 /* of them for users other than root and the own one, in all */
#define DOOR_PER_USER 8   /* and for each of these users */
#define DOOR_SECONDS 10   /* from the first byte of a request to the last one of its answer, however they come */

struct doors;

/* Open them; `path` is that of the socket, `port` that of TCP on 127.0.0.1 and, where there is IPv6, ::1. A TCP port that
 * is taken is said, and tried again once a second as long as there is the socket. NULL with a line said when there is no
 * way in at all. */
struct doors *doors_open(const char *path, unsigned int port, MHD_AccessHandlerCallback on_request,
                         MHD_RequestCompletedCallback on_end, void *context);
void doors_close(struct doors *doors);

/* Whether a request comes through the socket in the file system, so that it needs no token. */
bool door_is_own(struct MHD_Connection *connection);
/* To be called at the end of each request: the next one on this connection gets its time. */
void door_request_over(struct MHD_Connection *connection);

#endif
