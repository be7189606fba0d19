/* What every thread that hands packets or frames to the core does when it has worked through a batch. */
#ifndef ZTNODE_IO_H
#define ZTNODE_IO_H

/* Write the frames and send the packets that this thread has gathered. The argument is for those who call it back. */
void io_flush(void *unused);

#endif
