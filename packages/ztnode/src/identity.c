#include "identity.h"

#include "core.h"
#include "util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool hex_run(const char **text, size_t digits) {
	for (size_t i = 0; i < digits; i++) {
		char c = (*text)[i];
		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
	}
	*text += digits;
	return true;
}

bool identity_sound(const char *text) {
	if (!hex_run(&text, 10) || strncmp(text, ":0:", 3) != 0) return false;
	text += 3;
	if (!hex_run(&text, 128) || *text++ != ':' || !hex_run(&text, 128)) return false;
	return text[strspn(text, "\r\n \t")] == 0;
}

bool identity_valid(const char *text) {
	const char *rest = text;
	if (!hex_run(&rest, 10) || strncmp(rest, ":0:", 3) != 0) return false;
	rest += 3;
	if (!hex_run(&rest, 128) || *rest) return false;
	_Alignas(16) unsigned char identity[2 * CORE_IDENTITY_SIZE] = {0};
	return (core_identity_read(identity, text) & 1) && (core_identity_valid(identity) & 1);
}

bool identity_private_key(const char *secret, unsigned char key[64]) {
	const char *digits = strrchr(secret, ':');
	bool good = digits && strlen(digits + 1) >= 128;
	for (size_t i = 0; good && i < 64; i++) {
		char two[3] = {digits[1 + 2 * i], digits[2 + 2 * i], 0};
		uint64_t byte = 0;
		good = parse_hex(two, 2, &byte);
		key[i] = (unsigned char)byte;
		explicit_bzero(two, sizeof two);
	}
	return good;
}

/* What a node without a home hands over when it makes its identity. */
struct fresh {
	char secret[512], public[512];
};

static void keep(core_node *node, void *user, void *thread, int type, const uint64_t id[2], const void *data, int length) {
	(void)node, (void)thread, (void)id;
	struct fresh *fresh = user;
	char *into = type == CORE_STATE_IDENTITY_SECRET ? fresh->secret : fresh->public;
	if (type > CORE_STATE_IDENTITY_SECRET || length <= 0 || length >= (int)sizeof fresh->secret) return;
	memcpy(into, data, (size_t)length);
	into[length] = 0;
}

static int nothing(core_node *node, void *user, void *thread, int type, const uint64_t id[2], void *data,
                   unsigned int size) {
	(void)node, (void)user, (void)thread, (void)type, (void)id, (void)data, (void)size;
	return -1;
}

static int no_wire(core_node *node, void *user, void *thread, int64_t socket, const struct sockaddr_storage *to,
                   const void *data, unsigned int length, unsigned int ttl) {
	(void)node, (void)user, (void)thread, (void)socket, (void)to, (void)data, (void)length, (void)ttl;
	return -1;
}

static void no_frame(core_node *node, void *user, void *thread, uint64_t nwid, void **network, uint64_t source,
                     uint64_t destination, unsigned int type, unsigned int vlan, const void *data, unsigned int length) {
	(void)node, (void)user, (void)thread, (void)nwid, (void)network, (void)source, (void)destination;
	(void)type, (void)vlan, (void)data, (void)length;
}

static int no_network(core_node *node, void *user, void *thread, uint64_t nwid, void **network, int operation,
                      const struct core_network *config) {
	(void)node, (void)user, (void)thread, (void)nwid, (void)network, (void)operation, (void)config;
	return 0;
}

static void no_event(core_node *node, void *user, void *thread, int event, const void *data) {
	(void)node, (void)user, (void)thread, (void)event, (void)data;
}

bool identity_generate(const char *secret_file, const char *public_file) {
	struct fresh fresh = {{0}, {0}};
	struct core_callbacks callbacks = {0, keep, nothing, no_wire, no_frame, no_network, no_event, NULL, NULL};
	core_node *node = NULL;
	if (ZT_Node_new(&node, &fresh, NULL, &callbacks, now_ms()) != CORE_OK) return false;
	ZT_Node_delete(node);
	bool good = identity_sound(fresh.secret) && write_lasting(secret_file, fresh.secret, strlen(fresh.secret), 0600) &&
	            write_file(public_file, fresh.public, strlen(fresh.public), 0644);
	if (!good) say("cannot write %s: %s", secret_file, strerror(errno));
	explicit_bzero(&fresh, sizeof fresh);
	return good;
}
