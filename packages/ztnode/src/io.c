#include "io.h"

#include "send.h"
#include "shortcut.h"
#include "tap.h"

#include <pthread.h>
#include <sched.h>

void io_begin(void) {
	const struct sched_param none = {0};
	if (sched_getscheduler(0) == SCHED_OTHER) pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

void io_flush(void *unused) {
	(void)unused;
	shortcut_forget();
	tap_flush();
	send_flush();
}
