/* The C interface of ZeroTier's core library 1.8.4 as far as ztnode uses it.
 *
 * Written from measured facts (sizes and offsets checked below), not a copy of ZeroTier's header. Times are
 * milliseconds of now_ms. MAC addresses and node addresses are in the low 48 and 40 bits.
 * Only ZT_Node_processBackgroundTasks writes its deadline; the other two that take one leave it alone, and get NULL.
 */
#ifndef ZTNODE_CORE_H
#define ZTNODE_CORE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

typedef void core_node;

enum { CORE_OK = 0 };
enum { CORE_EVENT_UP, CORE_EVENT_OFFLINE, CORE_EVENT_ONLINE, CORE_EVENT_DOWN, CORE_EVENT_IDENTITY_COLLISION };
enum { CORE_NET_UP = 1, CORE_NET_UPDATE, CORE_NET_DOWN, CORE_NET_DESTROY };
enum {
	CORE_STATE_IDENTITY_PUBLIC = 1,
	CORE_STATE_IDENTITY_SECRET,
	CORE_STATE_PLANET,
	CORE_STATE_MOON,
	CORE_STATE_PEER,
	CORE_STATE_NETWORK_CONFIG
};
enum { CORE_NETWORK_REQUESTING, CORE_NETWORK_OK };

enum { CORE_ROLE_LEAF, CORE_ROLE_MOON, CORE_ROLE_PLANET };

#define CORE_MAX_ADDRESSES 16
#define CORE_MAX_PATHS 16

struct core_network {
	uint64_t nwid;
	uint64_t mac;
	char name[128];
	int status;
	int type;
	unsigned int mtu;
	int dhcp;
	int bridge;
	int broadcast;
	int port_error;
	unsigned long revision;
	unsigned int address_count;
	struct sockaddr_storage addresses[CORE_MAX_ADDRESSES]; /* the port holds the prefix length */
	unsigned char rest[27552];
};
static_assert(offsetof(struct core_network, status) == 144, "core ABI");
static_assert(offsetof(struct core_network, mtu) == 152, "core ABI");
static_assert(offsetof(struct core_network, revision) == 176, "core ABI");
static_assert(offsetof(struct core_network, addresses) == 192, "core ABI");
static_assert(sizeof(struct core_network) == 29792, "core ABI");

struct core_path {
	struct sockaddr_storage address;
	uint64_t last_send;
	uint64_t last_receive;
	uint64_t trusted_path_id;
	unsigned char measures[40];
	uint8_t scope; /* of the address: global, private … */
	unsigned char rest[39];
	int64_t socket;
	int expired;
	int preferred;
};
static_assert(offsetof(struct core_path, scope) == 192, "core ABI");
static_assert(offsetof(struct core_path, socket) == 232, "core ABI");
static_assert(offsetof(struct core_path, last_send) == 128, "core ABI");
static_assert(offsetof(struct core_path, expired) == 240, "core ABI");
static_assert(sizeof(struct core_path) == 248, "core ABI");

struct core_peer {
	uint64_t address;
	int version[3];
	int latency; /* milliseconds, -1 when unknown */
	int role;
	unsigned char rest[52];
	unsigned int path_count;
	struct core_path paths[CORE_MAX_PATHS];
};
static_assert(offsetof(struct core_peer, latency) == 20, "core ABI");
static_assert(offsetof(struct core_peer, role) == 24, "core ABI");
static_assert(offsetof(struct core_peer, path_count) == 80, "core ABI");
static_assert(offsetof(struct core_peer, paths) == 88, "core ABI");
static_assert(sizeof(struct core_peer) == 4056, "core ABI");

/* The path that it is sent to by; NULL where there is none. */
static inline const struct core_path *core_preferred(const struct core_peer *peer) {
	for (unsigned int i = 0; i < peer->path_count && i < CORE_MAX_PATHS; i++)
		if (peer->paths[i].preferred) return &peer->paths[i];
	return NULL;
}

struct core_peers {
	struct core_peer *peers;
	unsigned long count;
};
struct core_networks {
	struct core_network *networks;
	unsigned long count;
};
struct core_status {
	uint64_t address;
	const char *public_identity;
	const char *secret_identity;
	int online;
};
struct core_path_config {
	uint64_t trusted_path_id;
	int mtu;
};

struct core_callbacks {
	long version;
	void (*state_put)(core_node *, void *, void *, int, const uint64_t[2], const void *, int);
	int (*state_get)(core_node *, void *, void *, int, const uint64_t[2], void *, unsigned int);
	int (*wire_send)(core_node *, void *, void *, int64_t, const struct sockaddr_storage *, const void *, unsigned int,
	                 unsigned int);
	void (*frame)(core_node *, void *, void *, uint64_t, void **, uint64_t, uint64_t, unsigned int, unsigned int,
	              const void *, unsigned int);
	int (*network_config)(core_node *, void *, void *, uint64_t, void **, int, const struct core_network *);
	void (*event)(core_node *, void *, void *, int, const void *);
	int (*path_check)(core_node *, void *, void *, uint64_t, int64_t, const struct sockaddr_storage *);
	int (*path_lookup)(core_node *, void *, void *, uint64_t, int, struct sockaddr_storage *);
};
static_assert(sizeof(struct core_callbacks) == 72, "core ABI");

int ZT_Node_new(core_node **node, void *uptr, void *tptr, const struct core_callbacks *callbacks, int64_t now);
void ZT_Node_delete(core_node *node);
int ZT_Node_processWirePacket(core_node *node, void *tptr, int64_t now, int64_t socket, const struct sockaddr_storage *from,
                              const void *data, unsigned int length, int64_t *deadline);
int ZT_Node_processVirtualNetworkFrame(core_node *node, void *tptr, int64_t now, uint64_t nwid, uint64_t source,
                                       uint64_t destination, unsigned int ether_type, unsigned int vlan, const void *data,
                                       unsigned int length, int64_t *deadline);
int ZT_Node_processBackgroundTasks(core_node *node, void *tptr, int64_t now, int64_t *deadline);
int ZT_Node_join(core_node *node, uint64_t nwid, void *uptr, void *tptr);
int ZT_Node_leave(core_node *node, uint64_t nwid, void **uptr, void *tptr);
int ZT_Node_multicastSubscribe(core_node *node, void *tptr, uint64_t nwid, uint64_t group, unsigned long adi);
int ZT_Node_multicastUnsubscribe(core_node *node, uint64_t nwid, uint64_t group, unsigned long adi);
int ZT_Node_orbit(core_node *node, void *tptr, uint64_t world, uint64_t seed);
uint64_t ZT_Node_address(core_node *node);
void ZT_Node_status(core_node *node, struct core_status *status);
struct core_peers *ZT_Node_peers(core_node *node);
struct core_networks *ZT_Node_networks(core_node *node);
void ZT_Node_freeQueryResult(core_node *node, void *result);
int ZT_Node_addLocalInterfaceAddress(core_node *node, const struct sockaddr_storage *address);
void ZT_Node_clearLocalInterfaceAddresses(core_node *node);
int ZT_Node_setPhysicalPathConfiguration(core_node *node, const struct sockaddr_storage *network,
                                         const struct core_path_config *config);
void ZT_version(int *major, int *minor, int *revision);

/* Inside of the core, under the names that its C++ has in the library: X25519 with SHA-512 over the result, and AES-256
 * (an object of CORE_AES_SIZE bytes, aligned to 16) in its portable form. */
#define CORE_AES_SIZE 576
void core_agree(const unsigned char private_key[64], const unsigned char public_key[64], void *key,
                unsigned int length) __asm__("_ZN8ZeroTier6C255195agreeERKNS0_7PrivateERKNS0_6PublicEPvj");
void core_aes_init(void *aes, const unsigned char key[32]) __asm__("_ZN8ZeroTier3AES8p_initSWEPKh");
void core_aes_encrypt(const void *aes, const unsigned char in[16],
                      unsigned char out[16]) __asm__("_ZNK8ZeroTier3AES11p_encryptSWEPKhPh");

/* An identity, zeroed before it is read: whether its address is that of its key, which the core needs some tenths of a
 * second for. A text with a private key would leak. */
#define CORE_IDENTITY_SIZE 80
int core_identity_read(void *identity, const char *text) __asm__("_ZN8ZeroTier8Identity10fromStringEPKc");
int core_identity_valid(const void *identity) __asm__("_ZNK8ZeroTier8Identity15locallyValidateEv");

/* Its packets: CORE_PACKET_MAX bytes, then their number that is in use. */
#define CORE_PACKET_MAX 10024
struct core_packet {
	_Alignas(16) unsigned char bytes[CORE_PACKET_MAX];
	unsigned int length;
};
static_assert(offsetof(struct core_packet, length) == CORE_PACKET_MAX, "core ABI");
static inline unsigned int core_packet_length(const void *packet) {
	unsigned int length;
	memcpy(&length, (const unsigned char *)packet + CORE_PACKET_MAX, sizeof length);
	return length;
}
void core_random(void *bytes, unsigned int count) __asm__("_ZN8ZeroTier5Utils15getSecureRandomEPvj");
bool core_uncompress(void *packet) __asm__("_ZN8ZeroTier6Packet10uncompressEv");
#define CORE_DEARMOR "_ZN8ZeroTier6Packet7dearmorEPKvPKNS_3AESE"
#define CORE_TRY_DECODE "_ZN8ZeroTier14IncomingPacket9tryDecodeEPKNS_18RuntimeEnvironmentEPvi"
#define CORE_RETRY "_ZN8ZeroTier6Switch24doAnythingWaitingForPeerEPvRKNS_9SharedPtrINS_4PeerEEE"

#endif
