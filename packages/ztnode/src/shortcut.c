#include "shortcut.h"

#include "armor.h"
#include "networks.h"
#include "rules.h"
#include "siv.h"
#include "util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A packet of a plain frame: IV, destination and source node, flags, MAC, verb, network, type of the frame, payload. */
enum { IV = 0, NAMES = 8, SOURCE = 13, FLAGS = 18, MAC = 19, VERB = 27, NETWORK = 28, TYPE = 36, PAYLOAD = 38 };
enum { NAMES_SIZE = MAC - NAMES, HEAD_SIZE = TYPE - VERB, HEAD_AND_TYPE = PAYLOAD - VERB };
enum { VERB_FRAME = 6, FLAGS_PLAIN = 0x18 /* AES-GMAC-SIV, whole, not relayed */, HOPS = 7, FRAGMENT = 0xff };
/* A frame with its Ethernet header, and where in an opened packet there is room for it: its type is where it was. */
enum { MACS = 12, ETHERNET = 14, FRAME_AT = PAYLOAD - ETHERNET };
enum { WAYS = 4, IDS = 64 };

struct way_in {
	bool open;
	uint64_t epoch;
	int64_t socket;
	struct sockaddr_storage from;
	unsigned char names[NAMES_SIZE], head[HEAD_AND_TYPE];
	size_t alike; /* so much of the head is that of each packet */
	const void *which;
	unsigned char macs[MACS]; /* of each frame: destination and source */
	struct siv_key keys[2];
};
struct way_out {
	bool open;
	uint64_t epoch, nwid;
	size_t longest; /* of its frames */
	size_t alike;   /* so much of the Ethernet header is that of each */
	unsigned char ethernet[ETHERNET], names[NAMES_SIZE], head[HEAD_SIZE];
	struct underlay *underlay;
	int64_t socket;
	struct sockaddr_storage to;
	struct siv_key keys[2];
};

/* What the core does while it is asked. */
enum watching { NOTHING, A_PACKET, A_FRAME };
struct watch {
	enum watching what;
	bool copied;   /* the next way has the keys */
	bool changing; /* the packet may change the core's mind */
	uint64_t epoch, nwid;
	const unsigned char *bytes;
	size_t length;
	unsigned int opened, delivered, sealed, sent; /* how often */
	bool alike;                                   /* what was delivered or sent is what was opened or sealed */
};
struct ways {
	struct watch watch;
	bool any;   /* of these is open, or */
	bool tried; /* a packet did not belong to its way: none is opened any more */
	unsigned int next_in, next_out;
	struct way_in in[WAYS];
	struct way_out out[WAYS];
	uint64_t ids[IDS]; /* random, of packets to come */
	unsigned int ids_left;
};
static _Thread_local struct ways ways;
static bool wanted = true;

__attribute__((constructor)) static void shortcut_begin(void) {
	const char *value = getenv("ZTNODE_SHORTCUT");
	wanted = !value || strcmp(value, "off") != 0;
}

void shortcut_enable(bool want) { wanted = want; }
bool shortcut_enabled(void) { return wanted && armor_own(); }

/* -- changes: how many have begun, above, and how many of them are not over, in the lowest bits */

#define BEGUN 0x10000u
static _Atomic uint64_t changes;

void shortcut_change_begin(void) { atomic_fetch_add(&changes, BEGUN + 1); }
void shortcut_change_end(void) { atomic_fetch_sub(&changes, 1); }

static bool settled(uint64_t epoch) { return epoch % BEGUN == 0; }
static bool still(uint64_t epoch) { return settled(epoch) && atomic_load(&changes) == epoch; }

/* -- networks whose rules do not look into frames, and what they look at */

struct look {
	uint64_t nwid;
	enum rules_look at;
};
static struct {
	pthread_mutex_t lock;
	size_t count;
	struct look looks[MAX_NETWORKS];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};
/* What this thread has read last: the core uses it next, or nothing of it. */
static _Thread_local struct look last_read;

static enum rules_look look_of(uint64_t nwid) {
	enum rules_look found = RULES_AT_FRAMES;
	pthread_mutex_lock(&known.lock);
	for (size_t i = 0; i < known.count; i++)
		if (known.looks[i].nwid == nwid) found = known.looks[i].at;
	pthread_mutex_unlock(&known.lock);
	return found;
}

static void set_look(uint64_t nwid, enum rules_look look) {
	shortcut_change_begin();
	pthread_mutex_lock(&known.lock);
	size_t at = 0;
	while (at < known.count && known.looks[at].nwid != nwid) at++;
	if (at < known.count) known.looks[at] = known.looks[--known.count];
	if (look != RULES_AT_FRAMES && known.count < MAX_NETWORKS) known.looks[known.count++] = (struct look){nwid, look};
	pthread_mutex_unlock(&known.lock);
	shortcut_change_end();
}

void shortcut_network_read(uint64_t nwid, const char *config, size_t length) {
	last_read = (struct look){nwid, rules_look(config, length)};
}

void shortcut_network_used(uint64_t nwid, bool up) {
	set_look(nwid, up && last_read.nwid == nwid ? last_read.at : RULES_AT_FRAMES);
	last_read.nwid = 0;
}

void shortcut_network_written(uint64_t nwid, const char *config, size_t length) {
	last_read.nwid = 0;
	set_look(nwid, rules_look(config, length));
}

/* -- ways */

static void close_in(struct way_in *way) {
	way->open = false;
	explicit_bzero(way->keys, sizeof way->keys);
}

static void close_out(struct way_out *way) {
	way->open = false;
	explicit_bzero(way->keys, sizeof way->keys);
}

void shortcut_forget(void) {
	ways.tried = false;
	if (!ways.any) return;
	for (int i = 0; i < WAYS; i++) {
		if (ways.in[i].open) close_in(&ways.in[i]);
		if (ways.out[i].open) close_out(&ways.out[i]);
	}
	ways.any = false;
}

static void watch_begin(enum watching what, uint64_t nwid, const unsigned char *bytes, size_t length) {
	ways.watch =
		(struct watch){.what = what, .epoch = atomic_load(&changes), .nwid = nwid, .bytes = bytes, .length = length};
}

/* -- in */

static bool leads(const struct way_in *way, int64_t socket, const struct sockaddr_storage *from,
                  const unsigned char *packet) {
	return way->open && way->socket == socket && memcmp(way->names, packet + NAMES, NAMES_SIZE) == 0 &&
	       memcmp(&way->from, from, address_size(from)) == 0;
}

static struct way_in *way_of(int64_t socket, const struct sockaddr_storage *from, const unsigned char *packet) {
	for (struct way_in *way = ways.in; way < ways.in + WAYS; way++)
		if (leads(way, socket, from, packet)) return way;
	return NULL;
}

/* The one for frames of this type as well, of a packet that `way` has opened. */
static struct way_in *way_of_type(struct way_in *way, const unsigned char *packet) {
	if (memcmp(way->head, packet + VERB, way->alike) == 0) return way;
	for (struct way_in *other = ways.in; other < ways.in + WAYS; other++)
		if (leads(other, way->socket, &way->from, packet) && other->epoch == way->epoch &&
		    memcmp(other->keys, way->keys, sizeof way->keys) == 0 && memcmp(other->head, packet + VERB, other->alike) == 0)
			return other;
	return NULL;
}

bool shortcut_in(int64_t socket, const struct sockaddr_storage *from, unsigned char *packet, size_t length,
                 struct shortcut_frame *frame) {
	if (!ways.any || length <= PAYLOAD || length > CORE_PACKET_MAX) return false;
	struct way_in *way = way_of(socket, from, packet);
	if (!way) return false;
	if (!still(way->epoch)) {
		close_in(way);
		return false;
	}
	bool good = armor_open_bytes(way->keys, packet, length) && memcmp(packet + VERB, way->head, HEAD_SIZE) == 0;
	struct way_in *fitting = good ? way_of_type(way, packet) : NULL;
	if (!fitting) {
		armor_close_bytes(way->keys, packet, length);
		if (good) return false; /* the first one of its type */
		close_in(way);
		ways.tried = true;
		return false;
	}
	way = fitting;
	memcpy(packet + FRAME_AT, way->macs, MACS);
	*frame = (struct shortcut_frame){way->which, packet + FRAME_AT, length - FRAME_AT};
	return true;
}

void shortcut_opened(const void *packet, const void *aes) {
	struct watch *watch = &ways.watch;
	const unsigned char *bytes = packet;
	if (watch->what != A_PACKET) return;
	watch->opened++;
	if (bytes[VERB] != VERB_FRAME) {
		if (!watch->changing) shortcut_change_begin();
		watch->changing = true;
		return;
	}
	if (watch->opened > 1 || !aes || core_packet_length(packet) != watch->length || watch->length <= PAYLOAD) return;
	if (memcmp(bytes + NAMES, watch->bytes + NAMES, NAMES_SIZE) != 0 || bytes[FLAGS] != FLAGS_PLAIN) return;
	watch->nwid = number_at(bytes + NETWORK, 8);
	enum rules_look look = look_of(watch->nwid);
	if (ways.tried || !settled(watch->epoch) || look == RULES_AT_FRAMES) return;
	struct way_in *way = &ways.in[ways.next_in];
	memcpy(way->names, bytes + NAMES, NAMES_SIZE);
	memcpy(way->head, bytes + VERB, HEAD_AND_TYPE);
	way->alike = look == RULES_AT_TYPES ? HEAD_AND_TYPE : HEAD_SIZE;
	memcpy(way->keys, aes, sizeof way->keys);
	watch->copied = true;
}

void shortcut_delivered(const void *which, uint64_t nwid, uint64_t source, uint64_t destination, unsigned int vlan,
                        size_t length) {
	struct watch *watch = &ways.watch;
	if (watch->what != A_PACKET) return;
	watch->delivered++;
	if (!watch->copied) return;
	watch->alike = nwid == watch->nwid && vlan == 0 && length == watch->length - PAYLOAD;
	struct way_in *way = &ways.in[ways.next_in];
	way->which = which;
	put_number(way->macs, destination, 6);
	put_number(way->macs + 6, source, 6);
}

/* Whether a packet of the underlay may be anything but one that tells, once it is opened, what it is. */
static bool is_unclear(const unsigned char *packet, size_t length) {
	return length <= VERB || packet[SOURCE] == FRAGMENT || (packet[FLAGS] & ~HOPS) != FLAGS_PLAIN;
}

int shortcut_ask_in(core_node *core, int64_t now, int64_t socket, const struct sockaddr_storage *from,
                    const unsigned char *packet, size_t length) {
	struct watch *watch = &ways.watch;
	if (shortcut_enabled()) {
		struct way_in *next = &ways.in[ways.next_in];
		if (next->open) close_in(next);
		watch_begin(A_PACKET, 0, packet, length);
		if (is_unclear(packet, length)) {
			shortcut_change_begin();
			watch->changing = true;
		}
	}
	int result = ZT_Node_processWirePacket(core, NULL, now, socket, from, packet, (unsigned int)length, NULL);
	if (watch->what == NOTHING) return result;
	if (watch->changing) shortcut_change_end();
	struct way_in *way = &ways.in[ways.next_in];
	if (watch->copied && watch->opened == 1 && watch->delivered == 1 && watch->alike && still(watch->epoch)) {
		way->open = ways.any = true;
		way->epoch = watch->epoch;
		way->socket = socket;
		way->from = *from;
		ways.next_in = (ways.next_in + 1) % WAYS;
	} else if (watch->copied) {
		close_in(way);
	}
	watch->what = NOTHING;
	return result;
}

/* -- out */

static uint64_t next_id(void) {
	if (ways.ids_left == 0) {
		core_random(ways.ids, sizeof ways.ids);
		ways.ids_left = IDS;
	}
	return ways.ids[--ways.ids_left];
}

static void fill(unsigned char *packet, const struct way_out *way, const unsigned char *frame, size_t length) {
	uint64_t id = next_id();
	memcpy(packet + IV, &id, sizeof id);
	memcpy(packet + NAMES, way->names, NAMES_SIZE);
	memcpy(packet + VERB, way->head, HEAD_SIZE);
	memcpy(packet + TYPE, frame + MACS, length - MACS);
	armor_seal_bytes(way->keys, packet, length + FRAME_AT);
}

bool shortcut_out(uint64_t nwid, const unsigned char *frame, size_t length, packet_place *place) {
	if (!ways.any || length <= ETHERNET) return false;
	for (struct way_out *way = ways.out; way < ways.out + WAYS; way++) {
		if (!way->open || way->nwid != nwid || memcmp(way->ethernet, frame, way->alike) != 0) continue;
		bool fits = length <= way->longest && still(way->epoch);
		unsigned char *packet = fits ? place(way->underlay, way->socket, &way->to, length + FRAME_AT) : NULL;
		if (packet) fill(packet, way, frame, length);
		else close_out(way);
		return packet;
	}
	return false;
}

void shortcut_sealing(const void *packet, bool encrypt, const void *aes) {
	struct watch *watch = &ways.watch;
	const unsigned char *bytes = packet;
	if (watch->what != A_FRAME) return;
	watch->sealed++;
	if (watch->sealed > 1 || !encrypt || !aes || core_packet_length(packet) != watch->length + FRAME_AT) return;
	if (bytes[VERB] != VERB_FRAME || number_at(bytes + NETWORK, 8) != watch->nwid) return;
	if (memcmp(bytes + TYPE, watch->bytes + MACS, watch->length - MACS) != 0) return;
	enum rules_look look = look_of(watch->nwid);
	if (!settled(watch->epoch) || look == RULES_AT_FRAMES) return;
	struct way_out *way = &ways.out[ways.next_out];
	way->alike = look == RULES_AT_TYPES ? ETHERNET : MACS;
	memcpy(way->head, bytes + VERB, HEAD_SIZE);
	memcpy(way->keys, aes, sizeof way->keys);
	watch->copied = true;
}

void shortcut_sent(struct underlay *underlay, int64_t socket, const struct sockaddr_storage *to,
                   const unsigned char *packet, size_t length) {
	struct watch *watch = &ways.watch;
	if (watch->what != A_FRAME) return;
	watch->sent++;
	if (!watch->copied || watch->sent > 1) return;
	watch->alike = socket > 0 && length == watch->length + FRAME_AT && packet[FLAGS] == FLAGS_PLAIN;
	struct way_out *way = &ways.out[ways.next_out];
	way->underlay = underlay;
	way->socket = socket;
	memcpy(&way->to, to, sizeof way->to);
	memcpy(way->names, packet + NAMES, NAMES_SIZE);
}

int shortcut_ask_out(core_node *core, int64_t now, uint64_t nwid, const unsigned char *frame, size_t length) {
	struct watch *watch = &ways.watch;
	if (shortcut_enabled()) {
		struct way_out *next = &ways.out[ways.next_out];
		if (next->open) close_out(next);
		watch_begin(A_FRAME, nwid, frame, length);
	}
	unsigned int type = (unsigned int)frame[MACS] << 8 | frame[MACS + 1];
	int result = ZT_Node_processVirtualNetworkFrame(core, NULL, now, nwid, number_at(frame + 6, 6), number_at(frame, 6),
	                                                type, 0, frame + ETHERNET, (unsigned int)(length - ETHERNET), NULL);
	if (watch->what == NOTHING) return result;
	struct way_out *way = &ways.out[ways.next_out];
	if (watch->copied && watch->sealed == 1 && watch->sent == 1 && watch->alike && still(watch->epoch)) {
		way->open = ways.any = true;
		way->epoch = watch->epoch;
		way->nwid = nwid;
		way->longest = length;
		memcpy(way->ethernet, frame, ETHERNET);
		ways.next_out = (ways.next_out + 1) % WAYS;
	} else if (watch->copied) {
		close_out(way);
	}
	watch->what = NOTHING;
	return result;
}
