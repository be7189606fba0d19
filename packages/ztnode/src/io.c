#include "io.h"

#include "send.h"
#include "tap.h"

void io_flush(void *unused) {
	(void)unused;
	tap_flush();
	send_flush();
}
