/* Whose credentials a packet brings: decisions alone, no I/O.
 *
 * On a controller's network the core makes an entry for the member that a credential was issued to before it looks at the
 * signature, reads its identity from the disk every five seconds, and keeps it: whoever knows the network's id could have
 * it keep millions, 70 from a packet. Members send their own credentials alone; revocations of others' are handed on. */
#ifndef ZTNODE_CREDENTIALS_H
#define ZTNODE_CREDENTIALS_H

/* Those of a packet that is neither encrypted nor compressed: its sender's alone (or none, or of a verb that has none),
 * with so many revocations, or others' (or in no form that the core reads). */
enum credentials { CREDENTIALS_OWN, CREDENTIALS_REVOKE, CREDENTIALS_OTHERS };
enum credentials credentials_of(const unsigned char *packet, unsigned int length, unsigned int *revocations);
/* The verbs that may bring some, as bits. */
#define CREDENTIALS_VERBS (1u << 3 | 1u << 7 | 1u << 0x0a | 1u << 0x0d | 1u << 0x0e)

#endif
