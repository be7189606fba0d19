/* When traffic to a peer returns to the uplink that the router's routes prefer: decisions alone, no I/O.
 *
 * The core keeps a path while it works, over whatever device it came to be, and moves it to the device by which the peer
 * was heard last. So after a failover it stays where it is, also where that line is slow or paid by the byte. Here the path
 * is compared with the router's route; where that leads over another device, the peer is asked over it, and with the answer
 * the core takes it. All times are milliseconds of the core's clock.
 */
#ifndef ZTNODE_HOMING_H
#define ZTNODE_HOMING_H

#include <stdbool.h>
#include <stdint.h>

#define HOMING_COMPARE 5000 /* between two comparisons, and after the first question without an answer; … */
#define HOMING_ASK 40000    /* then twice as long each time, up to this */
#define HOMING_FELL 10000   /* after the path by the preferred uplink was given up; … */
#define HOMING_LONG 320000  /* the same, twice as long each time, up to this: a line that loses much works now and then */
#define HOMING_CALM 60000   /* after so long at home it has not fallen before */
#define HOMING_ANSWER 2000  /* time for an answer, which only then becomes the path */

/* What is kept of a peer; all zero at first. */
struct homing {
	int64_t next;            /* comparison */
	int64_t since;           /* when its path leads over the preferred uplink; 0: it does not */
	int64_t asked, fell;     /* the last pauses after a question and after a fall; 0: none */
	int64_t expected, until; /* the socket by which it was asked, and how long an answer is waited for; 0: none */
};

/* Whether the path is to be compared now. */
bool homing_due(const struct homing *homing, int64_t now);
/* It has been: `better` is the socket on the uplink that the route leads over, 0 where that is the path's own. Whether to
 * ask the peer by it. */
bool homing_compared(struct homing *homing, int64_t better, int64_t now);
/* The path was given up. */
void homing_fell(struct homing *homing, int64_t now);
/* The socket to which the path is to be kept, of which `socket` is its present one: by which the peer was asked, even
 * before its answer, for packets by the former one come until then; 0: none. */
int64_t homing_socket(struct homing *homing, int64_t socket, int64_t now);

#endif
