/* Identities as text, outside a running node. */
#ifndef ZTNODE_IDENTITY_H
#define ZTNODE_IDENTITY_H

#include <stdbool.h>

/* Make an identity and write both files. False with a line said. */
bool identity_generate(const char *secret_file, const char *public_file);
/* Whether a text is a public identity whose address is that of its key. */
bool identity_valid(const char *text);
/* Whether a text has the form of a secret identity. */
bool identity_sound(const char *text);
/* The private key in the text of a secret identity. */
bool identity_private_key(const char *secret, unsigned char key[64]);

#endif
