/* Any text as a secret identity: what is taken for sound has every part in its place. */
#include "identity.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char sound[] = "0123456789:0:";
	char *text = malloc(size + sizeof sound + 300);
	size_t begin = 0;
	if (size && data[0] & 1) { /* a sound one with some of the bytes laid over it */
		memcpy(text, sound, 13);
		memset(text + 13, 'a', 257);
		text[13 + 128] = ':';
		begin = data[0] % 200;
	}
	memcpy(text + begin, data, size);
	size_t length = begin ? (begin + size > 270 ? begin + size : 270) : size;
	text[length] = 0;
	char *exact = strdup(text);
	if (identity_sound(exact) &&
	    (strlen(exact) < 270 || exact[10] != ':' || exact[141] != ':' || strspn(exact + 142, "0123456789abcdef") != 128))
		abort();
	free(exact);
	free(text);
	return 0;
}
