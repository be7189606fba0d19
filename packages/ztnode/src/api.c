#include "api.h"

#include "door.h"
#include "home.h"
#include "io.h"
#include "offloads.h"
#include "shortcut.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_LIMIT 65536

struct api {
	struct node *node;
	char token[256];
	struct doors *doors;
};

static int core_version[3];

static json_t *hex(uint64_t value, int digits) {
	char text[20];
	snprintf(text, sizeof text, "%0*llx", digits, (unsigned long long)value);
	return json_string(text);
}

static json_t *address_json(const struct sockaddr_storage *address) {
	char text[80];
	format_address(address, text, sizeof text);
	return json_string(text);
}

/* Nodes whose encrypted HELLO could not be read. */
static json_t *unread_json(struct api *api) {
	struct hello_sender senders[HELLO_SENDERS];
	size_t count = hello_unread(node_hello(api->node), senders);
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:o, s:i, s:I}", "address", hex(senders[i].node, 10), "count",
		                                      (int)senders[i].count, "last", (json_int_t)wall_of(senders[i].last)));
	return list;
}

/* Some offloads by name, and whether there are. */
static json_t *offloads_json(unsigned int which, unsigned int present) {
	json_t *result = json_object();
	for (unsigned int i = 0; i < OFFLOADS; i++)
		if (which & 1u << i) json_object_set_new(result, offload_name(i), json_boolean(present & 1u << i));
	return result;
}

/* What was kept from the core, and messages that left as single packets because the kernel took no segments. */
static json_t *underlay_json(struct api *api) {
	struct gate_counts counts = guard_counts(node_guard(api->node));
	return json_pack("{s:b, s:I, s:I, s:I, s:I, s:o}", "closed", guard_closed(node_guard(api->node)), "foreign",
	                 (json_int_t)counts.foreign, "forged", (json_int_t)counts.forged, "strangers",
	                 (json_int_t)counts.strangers, "segmentsRefused",
	                 (json_int_t)underlay_refused(node_underlay(api->node)), "offloads",
	                 offloads_json(OFFLOADS_NODE, underlay_offloads(node_underlay(api->node)) |
	                                                  (shortcut_enabled() ? OFFLOAD_SHORTCUT : 0)));
}

static json_t *status_json(struct api *api) {
	struct sockaddr_storage addresses[UNDERLAY_SOCKETS];
	size_t count = underlay_addresses(node_underlay(api->node), addresses, UNDERLAY_SOCKETS);
	json_t *listening = json_array();
	for (size_t i = 0; i < count; i++) json_array_append_new(listening, address_json(&addresses[i]));
	char version[40];
	snprintf(version, sizeof version, "%d.%d.%d", core_version[0], core_version[1], core_version[2]);
	json_t *status = json_pack("{s:o, s:s, s:b, s:b, s:i, s:i, s:i, s:i, s:s, s:I, s:{s:{s:i, s:b, s:b, s:s, s:o}}}",
	                           "address", hex(node_address(api->node), 10), "publicIdentity",
	                           node_public_identity(api->node), "online", node_online(api->node), "tcpFallbackActive", 0,
	                           "versionMajor", core_version[0], "versionMinor", core_version[1], "versionRev",
	                           core_version[2], "versionBuild", 0, "version", version, "clock", (json_int_t)wall_ms(),
	                           "config", "settings", "primaryPort", (int)node_port(api->node), "allowTcpFallbackRelay", 0,
	                           "portMappingEnabled", 0, "softwareUpdate", "disable", "listeningOn", listening);
	json_object_set_new(status, "unreadHello", unread_json(api));
	json_object_set_new(status, "underlay", underlay_json(api));
	return status;
}

static json_t *network_json(struct api *api, const struct core_network *network) {
	static const char *const states[] = {
		"REQUESTING_CONFIGURATION", "OK", "ACCESS_DENIED", "NOT_FOUND", "PORT_ERROR", "CLIENT_TOO_OLD",
		"AUTHENTICATION_REQUIRED"};
	unsigned int state = (unsigned int)network->status;
	char device[IFNAMSIZ], mac[20], name[129];
	networks_device(node_networks(api->node), network->nwid, device);
	for (int i = 0; i < 6; i++) snprintf(mac + 3 * i, 4, "%02x:", (unsigned int)(network->mac >> (40 - 8 * i)) & 0xff);
	mac[17] = 0;
	memcpy(name, network->name, 128);
	name[128] = 0;
	json_t *addresses = json_array();
	for (unsigned int i = 0; i < network->address_count && i < CORE_MAX_ADDRESSES; i++)
		json_array_append_new(addresses, address_json(&network->addresses[i]));
	json_t *name_json = json_string(name);
	return json_pack(
		"{s:o, s:o, s:s, s:o, s:s, s:s, s:i, s:b, s:b, s:b, s:i, s:I, s:o, s:s, s:b, s:b, s:b, s:b, s:o}", "id",
		hex(network->nwid, 16), "nwid", hex(network->nwid, 16), "mac", mac, "name", name_json ? name_json : json_string(""),
		"status", state < sizeof states / sizeof *states ? states[state] : "UNKNOWN", "type",
		network->type ? "PUBLIC" : "PRIVATE", "mtu", (int)network->mtu, "dhcp", network->dhcp != 0, "bridge",
		network->bridge != 0, "broadcastEnabled", network->broadcast != 0, "portError", network->port_error,
		"netconfRevision", (json_int_t)network->revision, "assignedAddresses", addresses, "portDeviceName", device,
		"allowManaged", 0, "allowGlobal", 0, "allowDefault", 0, "allowDNS", 0, "offloads",
		offloads_json(OFFLOADS_ALL & ~OFFLOADS_NODE, networks_offloads(node_networks(api->node), network->nwid)));
}

static json_t *peer_json(const struct core_peer *peer) {
	static const char *const roles[] = {"LEAF", "MOON", "PLANET"};
	char version[40];
	snprintf(version, sizeof version, "%d.%d.%d", peer->version[0], peer->version[1], peer->version[2]);
	json_t *paths = json_array();
	for (unsigned int i = 0; i < peer->path_count && i < CORE_MAX_PATHS; i++) {
		const struct core_path *path = &peer->paths[i];
		json_array_append_new(paths,
		                      json_pack("{s:o, s:I, s:I, s:I, s:b, s:b, s:b}", "address", address_json(&path->address),
		                                "lastSend", (json_int_t)wall_of((int64_t)path->last_send), "lastReceive",
		                                (json_int_t)wall_of((int64_t)path->last_receive), "trustedPathId",
		                                (json_int_t)path->trusted_path_id, "active", path->expired == 0, "expired",
		                                path->expired != 0, "preferred", path->preferred != 0));
	}
	return json_pack("{s:o, s:i, s:i, s:i, s:s, s:i, s:s, s:b, s:b, s:o}", "address", hex(peer->address, 10),
	                 "versionMajor", peer->version[0], "versionMinor", peer->version[1], "versionRev", peer->version[2],
	                 "version", version, "latency", peer->latency, "role",
	                 peer->role >= 0 && peer->role <= 2 ? roles[peer->role] : "LEAF", "isBonded", 0, "tunneled", 0, "paths",
	                 paths);
}

/* All networks, or the one asked for; NULL when there is no such. */
static json_t *networks_json(struct api *api, const uint64_t *only) {
	struct core_networks *list = ZT_Node_networks(node_core(api->node));
	json_t *result = only ? NULL : json_array();
	for (unsigned long i = 0; list && i < list->count; i++) {
		if (!only) json_array_append_new(result, network_json(api, &list->networks[i]));
		else if (list->networks[i].nwid == *only) result = network_json(api, &list->networks[i]);
	}
	if (list) ZT_Node_freeQueryResult(node_core(api->node), list);
	return result;
}

static json_t *peers_json(struct api *api, const uint64_t *only) {
	struct core_peers *list = ZT_Node_peers(node_core(api->node));
	json_t *result = only ? NULL : json_array();
	for (unsigned long i = 0; list && i < list->count; i++) {
		if (!only) json_array_append_new(result, peer_json(&list->peers[i]));
		else if (list->peers[i].address == *only) result = peer_json(&list->peers[i]);
	}
	if (list) ZT_Node_freeQueryResult(node_core(api->node), list);
	return result;
}

static bool path_id(const char *path, const char *prefix, size_t digits, uint64_t *id) {
	size_t length = strlen(prefix);
	return strncmp(path, prefix, length) == 0 && strlen(path) == length + digits && parse_hex(path + length, digits, id);
}

/* The answer to a request that may be answered; NULL with a code otherwise. */
static json_t *answer(struct api *api, const char *method, const char *path, unsigned int *code) {
	uint64_t id;
	bool get = strcmp(method, "GET") == 0, post = strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0;
	json_t *result = NULL;
	*code = 404;
	if (get && strcmp(path, "/status") == 0) result = status_json(api);
	else if (get && strcmp(path, "/network") == 0) result = networks_json(api, NULL);
	else if (get && strcmp(path, "/peer") == 0) result = peers_json(api, NULL);
	else if (get && path_id(path, "/peer/", 10, &id)) result = peers_json(api, &id);
	else if (path_id(path, "/network/", 16, &id)) {
		if (post && id && !networks_join(node_networks(api->node), id)) *code = 500;
		else if (get || post) result = networks_json(api, &id);
		else if (strcmp(method, "DELETE") == 0 && networks_leave(node_networks(api->node), id))
			result = json_pack("{s:b}", "result", 1);
	}
	io_flush(NULL); /* a join sends from this thread */
	if (result) *code = 200;
	return result;
}

static bool token_matches(const struct api *api, const char *given) {
	unsigned char difference = !given || strlen(given) != strlen(api->token);
	if (!difference)
		for (size_t i = 0; api->token[i]; i++) difference |= (unsigned char)(given[i] ^ api->token[i]);
	return !difference;
}

/* Who can open the socket in the home could read the token there too, so it is asked for on TCP alone. */
static bool may_ask(const struct api *api, struct MHD_Connection *connection) {
	if (door_is_own(connection)) return true;
	const char *token = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-ZT1-Auth");
	if (!token) token = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "auth");
	return token_matches(api, token);
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, unsigned int code, json_t *json) {
	char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
	if (json && !text) code = 500; /* no memory */
	json_decref(json);
	struct MHD_Response *response =
		text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE)
			 : MHD_create_response_from_buffer(2, (void *)(uintptr_t) "{}", MHD_RESPMEM_PERSISTENT);
	if (!response) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
	enum MHD_Result result = MHD_queue_response(connection, code, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *body, size_t *body_size, void **state) {
	(void)version, (void)body;
	struct api *api = context;
	size_t *received = *state;
	if (!received) {
		*state = calloc(1, sizeof *received);
		return *state ? MHD_YES : MHD_NO;
	}
	if (*body_size) { /* what is posted changes nothing here; it is read, and not without end */
		*received += *body_size;
		*body_size = 0;
		return *received > BODY_LIMIT ? MHD_NO : MHD_YES;
	}
	if (!may_ask(api, connection)) return send_answer(connection, 401, NULL);
	unsigned int code;
	json_t *json = answer(api, method, path, &code);
	return send_answer(connection, code, json);
}

static void on_end(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code) {
	(void)context, (void)code;
	free(*state);
	*state = NULL;
	door_request_over(connection);
}

struct api *api_start(struct node *node, const char *home, const char *token) {
	struct api *api = calloc(1, sizeof *api);
	if (!api) return NULL;
	api->node = node;
	snprintf(api->token, sizeof api->token, "%s", token);
	ZT_version(&core_version[0], &core_version[1], &core_version[2]);
	char path[HOME_MAX + 32];
	home_socket(home, path);
	api->doors = doors_open(path, node_port(node), on_request, on_end, api);
	if (api->doors) return api;
	explicit_bzero(api->token, sizeof api->token);
	free(api);
	return NULL;
}

void api_stop(struct api *api) {
	if (!api) return;
	doors_close(api->doors);
	explicit_bzero(api->token, sizeof api->token);
	free(api);
}
