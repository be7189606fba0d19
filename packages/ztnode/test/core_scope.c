/* What the core prefers: by its own rule, and on a link without a controller what is configured. */
#include "core.h"
#include "decode.h"
#include "scope.h"
#include "util.h"

#include <assert.h>
#include <stdio.h>

static int scope(const char *text) {
	struct sockaddr_storage address;
	assert(parse_address(text, '/', &address));
	return scope_of(&address);
}

/* Those with port 9993. */
static bool is_configured(void *context, const struct sockaddr_storage *address) {
	(void)context;
	return address_port(address) == 9993;
}

int main(void) {
	enum { LOOPBACK = 2, LEAST = 3, GLOBAL = 4, LINK_LOCAL = 5, PRIVATE = 7 };
	assert(scope_works() && decode_works());
	scope_prefer(is_configured, NULL);
	assert(scope("10.0.0.1/1") == PRIVATE && scope("8.8.8.8/1") == GLOBAL && scope("51.68.10.1/1") == LEAST);
	decode_close();
	assert(scope("10.0.0.1/9993") == PRIVATE && scope("fd00::1/9993") == PRIVATE && scope("100.64.0.1/9993") == PRIVATE);
	assert(scope("8.8.8.8/9993") == GLOBAL && scope("2001:4860::1/9993") == GLOBAL && scope("51.68.10.1/9993") == GLOBAL);
	assert(scope("10.0.0.1/1") == LEAST && scope("8.8.8.8/1") == LEAST && scope("fd00::1/1") == LEAST);
	assert(scope("51.68.10.1/1") == LEAST);
	assert(scope("127.0.0.1/1") == LOOPBACK && scope("fe80::2/1") == LINK_LOCAL && scope("224.0.0.1/1") == 1);
	puts("core_scope: what is configured is preferred");
	return 0;
}
