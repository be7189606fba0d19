#include "settings.h"

#include "offloads.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_physical(struct settings *settings, const char *key, json_t *value) {
	struct physical_path path = {0};
	if (!json_is_object(value) || !parse_prefix(key, &path.prefix)) return false;
	path.blacklist = json_is_true(json_object_get(value, "blacklist"));
	json_int_t mtu = json_integer_value(json_object_get(value, "mtu"));
	path.mtu = mtu >= 1400 && mtu <= 10100 ? (int)mtu : 0;
	json_int_t trusted = json_integer_value(json_object_get(value, "trustedPathId"));
	path.trusted_path_id = trusted > 0 ? (uint64_t)trusted : 0;
	settings->physical[settings->physical_count++] = path;
	return true;
}

static void add_tries(struct settings *settings, const char *key, json_t *value) {
	uint64_t node;
	if (strlen(key) != 10 || !parse_hex(key, 10, &node)) return;
	size_t index;
	json_t *item;
	json_array_foreach(json_object_get(value, "try"), index, item) {
		struct try_address *entry = &settings->tries[settings->try_count];
		if (settings->try_count == MAX_TRIES) return;
		if (json_is_string(item) && parse_address(json_string_value(item), '/', &entry->address)) {
			entry->node = node;
			settings->try_count++;
		}
	}
}

static void read_settings(struct settings *settings, json_t *object) {
	json_int_t port = json_integer_value(json_object_get(object, "primaryPort"));
	settings->primary_port = port > 0 && port <= 65535 ? (unsigned int)port : 0;
	size_t index;
	json_t *item;
	json_array_foreach(json_object_get(object, "bind"), index, item) {
		if (settings->bind_count == MAX_BINDS) break;
		if (json_is_string(item) && parse_address(json_string_value(item), '/', &settings->binds[settings->bind_count]))
			settings->bind_count++;
	}
	/* Not one of zerotier-one's: whole names, where the prefixes of the others could not all be told beforehand. */
	json_array_foreach(json_object_get(object, "interfaces"), index, item) {
		if (settings->interface_count == MAX_BINDS) break;
		if (json_is_string(item) && json_string_length(item) > 0 && json_string_length(item) < IFNAMSIZ)
			strcpy(settings->interfaces[settings->interface_count++], json_string_value(item));
	}
	json_array_foreach(json_object_get(object, "offloadDisable"), index, item) {
		if (json_is_string(item)) settings->offloads_off |= offload_named(json_string_value(item));
	}
	json_array_foreach(json_object_get(object, "interfacePrefixBlacklist"), index, item) {
		if (settings->interface_blacklist_count == MAX_PREFIXES) break;
		if (json_is_string(item) && json_string_length(item) > 0 && json_string_length(item) < IFNAMSIZ)
			strcpy(settings->interface_blacklist[settings->interface_blacklist_count++], json_string_value(item));
	}
}

/* NULL without memory. */
static struct settings *empty_settings(void) {
	struct settings *settings = calloc(1, sizeof *settings);
	if (!settings) return NULL;
	settings->interface_blacklist = calloc(MAX_PREFIXES, sizeof *settings->interface_blacklist);
	settings->physical = calloc(MAX_PREFIXES, sizeof *settings->physical);
	settings->tries = calloc(MAX_TRIES, sizeof *settings->tries);
	if (settings->interface_blacklist && settings->physical && settings->tries) return settings;
	settings_free(settings);
	return NULL;
}

struct settings *settings_parse(const char *text, size_t length, char *reason, size_t reason_size) {
	json_error_t error;
	json_t *root = json_loadb(text, length, 0, &error);
	if (!json_is_object(root)) {
		snprintf(reason, reason_size, "%s", root ? "not a JSON object" : *error.text ? error.text : "no memory");
		json_decref(root);
		return NULL;
	}
	struct settings *settings = empty_settings();
	if (!settings) {
		snprintf(reason, reason_size, "no memory");
		json_decref(root);
		return NULL;
	}
	read_settings(settings, json_object_get(root, "settings"));
	const char *key;
	json_t *value;
	json_object_foreach(json_object_get(root, "physical"), key, value) {
		if (settings->physical_count < MAX_PREFIXES) add_physical(settings, key, value);
	}
	json_object_foreach(json_object_get(root, "virtual"), key, value) add_tries(settings, key, value);
	json_decref(root);
	return settings;
}

void settings_free(struct settings *settings) {
	if (!settings) return;
	free(settings->interface_blacklist);
	free(settings->physical);
	free(settings->tries);
	free(settings);
}

bool interface_excluded(const struct settings *settings, const char *name) {
	static const char *const built_in[] = {"lo", "zt", "tun", "tap"};
	for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
		if (strncmp(name, built_in[i], strlen(built_in[i])) == 0) return true;
	for (size_t i = 0; i < settings->interface_blacklist_count; i++) {
		const char *prefix = settings->interface_blacklist[i];
		if (strncmp(name, prefix, strlen(prefix)) == 0) return true;
	}
	for (size_t i = 0; i < settings->interface_count; i++)
		if (strcmp(name, settings->interfaces[i]) == 0) return false;
	return settings->interface_count > 0;
}

bool interface_is_dummy(const char *name) { return strncmp(name, "dum", 3) == 0; }

bool address_excluded(const struct settings *settings, const struct sockaddr_storage *address) {
	for (size_t i = 0; i < settings->physical_count; i++)
		if (settings->physical[i].blacklist && prefix_contains(&settings->physical[i].prefix, address)) return true;
	return false;
}

bool try_listed(const struct settings *settings, uint64_t node, const struct sockaddr_storage *address) {
	for (size_t i = 0; i < settings->try_count; i++)
		if ((!node || settings->tries[i].node == node) && same_endpoint(&settings->tries[i].address, address)) return true;
	return false;
}

bool devicemap_lookup(const char *text, uint64_t nwid, char name[IFNAMSIZ]) {
	for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		uint64_t found;
		if (strnlen(line, 17) < 17 || !parse_hex(line, 16, &found) || line[16] != '=' || found != nwid) continue;
		size_t length = strcspn(line + 17, "\r\n");
		if (length == 0 || length >= IFNAMSIZ || memchr(line + 17, '/', length)) continue;
		memcpy(name, line + 17, length);
		name[length] = 0;
		return true;
	}
	return false;
}
