#include "io.h"

#include "send.h"
#include "shortcut.h"
#include "tap.h"

void io_flush(void *unused) {
	(void)unused;
	shortcut_forget();
	tap_flush();
	send_flush();
}
