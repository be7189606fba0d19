/* Whether a socket may send messages of several segments: a decision alone, no I/O.
 *
 * The kernel may refuse them, for the MTU of the device or what else is on it, and that may pass. So packets leave one by
 * one for a time, doubled with each refusal, and segments are tried again. Any thread may ask and report at any time; two
 * that report at once leave the pause of one of them.
 */
#ifndef ZTNODE_SEGMENTS_H
#define ZTNODE_SEGMENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SEGMENTS_PAUSE_MS 1000       /* after the first refusal */
#define SEGMENTS_PAUSE_MOST_MS 64000 /* after many */

/* All zero at first: segments go. Times are milliseconds of clock_ms. */
struct segments {
	_Atomic int64_t until;  /* none before */
	_Atomic int64_t pause;  /* length of the last pause, 0: segments go */
	_Atomic uint16_t least; /* the least size that was refused: smaller ones may go, and prove nothing for it */
};

/* Whether segments of this size may be sent now. */
bool segments_may_go(const struct segments *segments, uint16_t size, int64_t now);
/* The kernel has refused them. True for the first time of a series. */
bool segments_refused(struct segments *segments, uint16_t size, int64_t now);
/* The kernel has taken them. */
void segments_taken(struct segments *segments, uint16_t size);

#endif
