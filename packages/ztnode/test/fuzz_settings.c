/* Any bytes as local.conf and as devicemap. */
#include "settings.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char reason[80], name[IFNAMSIZ];
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = 0;
	struct settings *settings = settings_parse(text, size, reason, sizeof reason);
	if (settings) {
		struct sockaddr_storage address;
		if (parse_address("192.0.2.1/9993", '/', &address)) address_excluded(settings, &address);
		interface_excluded(settings, "eth0");
	}
	settings_free(settings);
	if (devicemap_lookup(text, 0x8056c2e21c000001ULL, name) && strlen(name) >= IFNAMSIZ) abort();
	free(text);
	return 0;
}
