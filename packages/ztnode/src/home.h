/* The home of a node: its lock, token, identity and records, and what it tells others of the process. The files that the
 * core keeps there are those of state.h. */
#ifndef ZTNODE_HOME_H
#define ZTNODE_HOME_H

#include <stdbool.h>
#include <stdint.h>

#define HOME_MAX 3072
#define TOKEN_MAX 128

/* Make it and its folders, and lock it against other processes. The descriptor to close at the end, or -1 with a line said.
 */
int home_open(const char *home);
/* The token of the local API: the one that is there, or a new one. False with a line said. */
bool home_token(const char *home, char token[TOKEN_MAX]);
/* Whether its identity is sound or absent; false with a line said. */
bool home_identity_sound(const char *home);
/* Whether its planet can be read or is absent; false with a line said. With one that cannot, the public roots would be
 * this node's, and they would take the file's place. */
bool home_planet_readable(const char *home);
/* Where the local API listens: in the directory that systemd has made for the service, or in the home where there is none.
 * A home lies among files that are copied and moved (VyOS: "encryption enable", "install image"), which a socket is not; so
 * one that an older version has left there is removed. */
void home_socket(const char *home, char path[HOME_MAX + 32]);
/* Write port and process number for those who look for them there. */
void home_tell(const char *home, unsigned int port);
/* Call for every record `folder`/<16 hex digits>.`ending`. */
void home_records(const char *home, const char *folder, const char *ending, void (*each)(void *context, uint64_t id),
                  void *context);

#endif
