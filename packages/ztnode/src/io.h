/* What every thread that hands packets or frames to the core does when it has worked through a batch. */
#ifndef ZTNODE_IO_H
#define ZTNODE_IO_H

/* Such a thread begins: whoever feeds or empties it is not interrupted each time that it has something to do, so that it
 * finds more when its turn comes. An instance often has one CPU for all its threads, and each acknowledgement of TCP would
 * take it from the thread that has the data. Where the process was started with another policy than the usual one, that
 * stays. */
void io_begin(void);
/* Write the frames and send the packets that this thread has gathered. The argument is for those who call it back. */
void io_flush(void *unused);

#endif
