/* Any packet with any keys, sealed and opened by every version and by the core: the same bytes and the same verdict. */
#include "armor.h"

#include "core.h"
#include "decode.h"
#include "siv.h"
#include "verbs.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void core_init(struct siv_key *key, const unsigned char bytes[32]) __asm__("_ZN8ZeroTier3AES12p_init_aesniEPKh");

enum { KEY = 32, SHORTEST = 28, FLAGS = 18, AES = 0x18 };
typedef void seal_function(struct core_packet *, const void *, bool, const struct siv_key *);
typedef bool open_function(struct core_packet *, const void *, const struct siv_key *);
static seal_function *core_seal;
static open_function *core_open;

/* The first byte: what to do; the second repeats the rest, so that long packets need no long input. */
static void packet_of(struct core_packet *packet, const uint8_t *data, size_t size) {
	size_t length = size * (1u + data[1]);
	if (length < SHORTEST) length = SHORTEST;
	if (length > CORE_PACKET_MAX) length = CORE_PACKET_MAX;
	for (size_t i = 0; i < length; i++) packet->bytes[i] = (unsigned char)(data[i % size] + i / size * 7);
	packet->length = (unsigned int)length;
	if (data[0] & 1) packet->bytes[FLAGS] = (unsigned char)((packet->bytes[FLAGS] & 0xc7) | AES);
}

static void check(struct core_packet *own, struct core_packet *cores, const unsigned char *key, const struct siv_key *keys,
                  uint8_t choice) {
	if (choice & 2) {
		armor_seal(own, key, choice & 4, keys);
		core_seal(cores, key, choice & 4, keys);
		if (memcmp(own, cores, sizeof *own) != 0) abort();
		if (choice & 8) own->bytes[choice % own->length] ^= 1, cores->bytes[choice % own->length] ^= 1;
	}
	bool good = core_open(cores, key, keys);
	/* What it asks is looked at behind the MAC; what has a budget may pass the first time and not the second. */
	static struct core_packet plain;
	plain = *cores;
	if (good && verbs_compressed(plain.bytes, plain.length) && !core_uncompress(&plain)) plain.length = 0;
	if (good && plain.length && verbs_of(plain.bytes, plain.length, false) > VERBS_PASS) return;
	bool passes = good && decode_may_pass(cores);
	if (decode_dearmor(own, key, keys) != passes) abort();
	if (memcmp(own, cores, sizeof *own) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char *const versions[] = {"sse", "vaes", "core"};
	static struct core_packet packet, own, cores;
	if (!core_seal) {
		core_seal = (seal_function *)dlsym(RTLD_NEXT, CORE_ARMOR);
		core_open = (open_function *)dlsym(RTLD_NEXT, CORE_DEARMOR);
	}
	if (size < KEY || !siv_choose("sse")) return 0;
	struct siv_key keys[2];
	core_init(&keys[0], data);
	core_init(&keys[1], data + size - KEY);
	packet_of(&packet, data, size);
	for (int i = 0; i < 3; i++) {
		if (!armor_select(versions[i])) continue;
		own = cores = packet;
		check(&own, &cores, data, data[0] & 16 ? NULL : keys, data[0]);
	}
	return 0;
}
