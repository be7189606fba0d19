/* Any bytes as packets in extended armor: no crash, nothing longer than it was, and the list of senders stays short. */
#include "hello.h"

#include "core.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIXTEEN "0123456789abcdef"
static const char secret[] = "0123456789:0:" SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN
							 ":" SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN;
static const unsigned char self[] = {0x01, 0x23, 0x45, 0x67, 0x89};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct hello *hello;
	static int64_t now = 1000000;
	if (!hello && !(hello = hello_new(secret))) abort();
	if (!size) return 0;
	unsigned char *packet = malloc(size - 1), plain[HELLO_MAX];
	memcpy(packet, data + 1, size - 1);
	if (data[0] & 1 && size > 14) memcpy(packet + 8, self, sizeof self); /* else the rest is hardly ever looked at */
	now += 1000;
	size_t opened = hello_open(hello, packet, size - 1, data[0] & 2, plain, now);
	if (opened && (opened + 32 != size - 1 || memcmp(plain, packet, 19) != 0)) abort();
	free(packet);
	struct hello_sender senders[HELLO_SENDERS];
	if (hello_unread(hello, senders) > HELLO_SENDERS) abort();

	char *text = malloc(size + 1); /* the same bytes as a secret identity */
	memcpy(text, data, size);
	text[size] = 0;
	hello_free(hello_new(text));
	free(text);
	return 0;
}
