/* Packets put back and decoded again, in any order, one within the other: none is taken for decrypted but the very bytes
 * that were decrypted and put back before. The core's two functions are played by the input. */
#include "../src/decode.c"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PACKETS = 6, REMEMBERED = 4096, DEEP = 8 };
struct packet {
	unsigned char bytes[CORE_PACKET_MAX];
	unsigned int length;
};
static struct packet packets[PACKETS];
static struct {
	unsigned int length;
	unsigned char bytes[64];
} put_back[REMEMBERED];
static unsigned int put_back_count;
static const uint8_t *script, *script_end;
static int depth;

static int next(void) { return script < script_end ? *script++ : 0; }

static bool play_dearmor(void *packet, const void *key, const void *aes) {
	(void)key, (void)aes;
	int choice = next();
	struct packet *this = packet;
	if (choice & 2 && this->length > HEADER && this->length <= CORE_PACKET_MAX)
		this->bytes[HEADER] ^= (unsigned char)next();
	return choice & 1;
}

static void check(struct packet *packet) {
	bool core_says = script < script_end && *script & 1;
	unsigned char before[64] = {0};
	unsigned int length = packet->length;
	memcpy(before, packet->bytes, length < 64 ? length : 64);
	const uint8_t *at = script;
	if (!decode_dearmor(packet, NULL, NULL) || (script != at && core_says)) return;
	for (unsigned int i = 0; i < put_back_count; i++)
		if (put_back[i].length == length && memcmp(put_back[i].bytes, before, sizeof before) == 0) return;
	abort();
}

static bool play_try(void *packet, const void *runtime, void *thread, int32_t flow) {
	(void)runtime, (void)thread, (void)flow;
	int choice = next();
	struct packet *this = packet;
	if (choice & 1) check(this);
	if (choice & 2 && depth < DEEP) {
		depth++;
		decode_try(&packets[next() % PACKETS], NULL, NULL, 0);
		depth--;
	}
	if (choice & 4) check(this);
	bool done = choice & 8;
	if (!done && put_back_count < REMEMBERED) {
		put_back[put_back_count].length = this->length;
		memset(put_back[put_back_count].bytes, 0, 64);
		memcpy(put_back[put_back_count++].bytes, this->bytes, this->length < 64 ? this->length : 64);
	}
	return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	core_dearmor = play_dearmor;
	core_try = play_try;
	for (struct kept *entry = kept; entry < kept + KEPT; entry++)
		if (entry->bytes) drop(entry);
	put_back_count = 0;
	for (int i = 0; i < PACKETS; i++) memset(packets[i].bytes, 0, 64), packets[i].length = 0;
	script = data;
	script_end = data + size;
	while (script < script_end && put_back_count < REMEMBERED) {
		struct packet *packet = &packets[next() % PACKETS];
		if (next() & 1) {
			memset(packet->bytes, next(), 64);
			packet->bytes[next() % 40] = (unsigned char)next();
			packet->length = (unsigned int)next() % 64;
			if (packet->length == 63) packet->length = CORE_PACKET_MAX - 32 + (unsigned int)next();
		}
		decode_try(packet, NULL, NULL, 0);
	}
	return 0;
}
