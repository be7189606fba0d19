/* Any text as a network's configuration; one whose rules look at nodes or types does so until
 * something of another kind is added. */
#include "rules.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum rules_look with(const uint8_t *data, size_t size, const char *more) {
	size_t length = strlen(more);
	char *text = malloc(size + length);
	if (!text) abort();
	memcpy(text, data, size);
	memcpy(text + size, more, length);
	enum rules_look result = rules_look(text, size + length);
	free(text);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	enum rules_look look = with(data, size, "");
	if (look != with(data, size, "\nn=more")) abort();
	if (with(data, size, "\ntt=89e92ceee5") || (look && with(data, size, "\nR=\1\\0"))) abort();
	return 0;
}
