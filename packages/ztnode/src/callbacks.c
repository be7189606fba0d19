#include "callbacks.h"

#include "armor.h"
#include "introduce.h"
#include "send.h"
#include "shortcut.h"
#include "state.h"
#include "util.h"

#include <unistd.h>

static void wake(const struct core_host *host) {
	uint64_t one = 1;
	(void)!write(host->wake, &one, sizeof one);
}

static void on_state_put(core_node *core, void *user, void *thread, int type, const uint64_t id[2], const void *data,
                         int length) {
	(void)core, (void)thread;
	struct core_host *host = user;
	if (type == CORE_STATE_NETWORK_CONFIG) shortcut_network_written(id[0], data, length > 0 ? (size_t)length : 0);
	if (!state_put(host->home, type, id, data, length)) host->identity_lost = true;
}

static int on_state_get(core_node *core, void *user, void *thread, int type, const uint64_t id[2], void *data,
                        unsigned int size) {
	(void)core, (void)thread;
	int length = state_get(((struct core_host *)user)->home, type, id, data, size);
	if (type == CORE_STATE_NETWORK_CONFIG) shortcut_network_read(id[0], data, length > 0 ? (size_t)length : 0);
	return length;
}

static int on_wire_send(core_node *core, void *user, void *thread, int64_t socket, const struct sockaddr_storage *to,
                        const void *data, unsigned int length, unsigned int ttl) {
	(void)core, (void)thread, (void)ttl;
	armor_leaves_unsealed(data, length);
	introduce_redirect(length, &socket, &to);
	struct underlay *underlay = ((struct core_host *)user)->underlay;
	if (!send_packet(underlay, socket, to, data, length)) return -1;
	shortcut_sent(underlay, socket, to, data, length);
	return 0;
}

static void on_frame(core_node *core, void *user, void *thread, uint64_t nwid, void **where, uint64_t source,
                     uint64_t destination, unsigned int type, unsigned int vlan, const void *data, unsigned int length) {
	(void)core, (void)thread;
	shortcut_delivered(*where, nwid, source, destination, vlan, length);
	networks_deliver(((struct core_host *)user)->networks, *where, source, destination, type, data, length);
}

static int on_network(core_node *core, void *user, void *thread, uint64_t nwid, void **where, int operation,
                      const struct core_network *config) {
	(void)core, (void)thread;
	shortcut_network_used(nwid, operation == CORE_NET_UP || operation == CORE_NET_UPDATE);
	return networks_configure(((struct core_host *)user)->networks, *where, operation, config);
}

static void on_event(core_node *core, void *user, void *thread, int event, const void *data) {
	(void)core, (void)thread, (void)data;
	struct core_host *host = user;
	if (event == CORE_EVENT_ONLINE) host->online = true;
	if (event == CORE_EVENT_OFFLINE) host->online = false;
	/* Any peer that is a root or a moon can say so, as every remote of a link without a controller is: no reason to end. */
	if (event == CORE_EVENT_IDENTITY_COLLISION && !atomic_exchange(&host->collision, true))
		say("a peer reports another node with this node's address and a different key; this node continues");
}

/* No tunnel inside a tunnel: blacklisted prefixes, and every address that one of our own devices has. The core asks for
 * each address and socket that a peer is heard from and that is none of its paths', too: a sign that the peer may have
 * moved, or just sends to another of our addresses than the one by whose uplink it is to be reached. */
static int on_path_check(core_node *core, void *user, void *thread, uint64_t peer, int64_t socket,
                         const struct sockaddr_storage *to) {
	(void)core, (void)thread;
	struct core_host *host = user;
	bool silent = false;
	if (localconf_excludes(host->conf, to)) return false;
	if (!host->contact) return true;
	bool keeps = contact_keeps(host->contact, peer, socket, to, &silent);
	if ((!keeps || silent) && contact_hint(host->contact, peer, to)) wake(host);
	return !keeps;
}

static int on_path_lookup(core_node *core, void *user, void *thread, uint64_t peer, int family,
                          struct sockaddr_storage *found) {
	(void)core, (void)thread;
	return localconf_try(((struct core_host *)user)->conf, peer, family, found);
}

const struct core_callbacks callbacks = {0,          on_state_put, on_state_get,  on_wire_send,  on_frame,
                                         on_network, on_event,     on_path_check, on_path_lookup};
