/* When devices, addresses and files are looked at: decisions alone, no I/O.
 *
 * The kernel tells each change of a device or an address, and where there are hundreds of them a look takes milliseconds
 * in which no packet takes the shortcut. So the first change is looked at at once, and what follows soon, together. All
 * times are milliseconds of one clock that is not set back.
 */
#ifndef ZTNODE_LOOKS_H
#define ZTNODE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

#define LOOKS_STEADY 2000 /* from one look to the next where nothing is told */
#define LOOKS_APART 200   /* from a look at a change to the next */

/* All zero at first. */
struct looks {
	int64_t looked, answered; /* the last look, and the last at a change */
	bool changed;             /* a change was told that no look has seen */
};

/* Whether to look now; `changed`: a change was told since the last call, which is kept in mind until looks_done. */
bool looks_due(struct looks *looks, bool changed, int64_t now);
/* A look has ended, which began after all that looks_due knows of was told. */
void looks_done(struct looks *looks, int64_t now);
/* Milliseconds until the look at a change is due, at least 1; where none is awaited, or not so soon, `most`. */
int64_t looks_pause(const struct looks *looks, int64_t now, int64_t most);

#endif
