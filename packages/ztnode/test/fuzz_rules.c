/* Any text as a network's configuration; one whose rules are by node is so until something of another kind is added. */
#include "rules.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool with(const uint8_t *data, size_t size, const char *more) {
	size_t length = strlen(more);
	char *text = malloc(size + length);
	if (!text) abort();
	memcpy(text, data, size);
	memcpy(text + size, more, length);
	bool result = rules_by_node(text, size + length);
	free(text);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	bool by_node = with(data, size, "");
	if (by_node != with(data, size, "\nn=more")) abort();
	if (with(data, size, "\ntt=89e92ceee5") || (by_node && with(data, size, "\nR=\1\\0"))) abort();
	return 0;
}
