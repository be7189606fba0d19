/* Time of one packet, sealed and opened, by the core and by each version that this CPU has: the best of many batches. */
#include "armor.h"
#include "core.h"
#include "decode.h"
#include "siv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 100, BATCHES = 300, FLAGS = 18, AES = 0x18 };
void core_init(struct siv_key *key, const unsigned char bytes[32]) __asm__("_ZN8ZeroTier3AES12p_init_aesniEPKh");
/* What the core found of the CPU: its fourth byte is VAES, its seventh AVX-512. */
extern unsigned char core_cpu[9] __asm__("_ZN8ZeroTier5Utils5CPUIDE");
enum { CPU_VAES = 3, CPU_AVX512 = 6 };

static struct core_packet packet;
static struct siv_key keys[2];
static unsigned char key[32];

static double seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double best_batch(void (*work)(void)) {
	double best = 1;
	for (int batch = 0; batch < BATCHES; batch++) {
		double begin = seconds();
		for (int i = 0; i < BATCH; i++) work();
		double spent = (seconds() - begin) / BATCH;
		if (spent < best) best = spent;
	}
	return best;
}

static void seal(void) { armor_seal(&packet, key, true, keys); }
static void open_it(void) {
	packet.bytes[FLAGS] = AES;
	decode_dearmor(&packet, key, keys);
}

static void measure(const char *name, const char *version) {
	if (!armor_select(version)) return;
	double sealing = best_batch(seal), opening = best_batch(open_it), length = packet.length;
	printf("%6u  %-16s %8.0f %8.2f %8.0f %8.2f\n", packet.length, name, sealing * 1e9, length / sealing / 1e9,
	       opening * 1e9, length / opening / 1e9);
}

int main(void) {
	if (!siv_choose("sse")) return 0;
	core_init(&keys[0], (const unsigned char *)"01234567890123456789012345678901");
	core_init(&keys[1], (const unsigned char *)"abcdefghijabcdefghijabcdefghijab");
	puts(" bytes  version           seal ns     GB/s  open ns     GB/s");
	static const unsigned int lengths[] = {100, 300, 1432, 9900};
	bool vaes = core_cpu[CPU_VAES], avx512 = core_cpu[CPU_AVX512];
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		packet.length = lengths[i];
		core_cpu[CPU_VAES] = core_cpu[CPU_AVX512] = 0;
		measure("core, AES-NI", "core");
		core_cpu[CPU_VAES] = vaes;
		if (vaes) measure("core, VAES", "core");
		core_cpu[CPU_AVX512] = avx512;
		if (vaes && avx512) measure("core, AVX-512", "core");
		measure("sse", "sse");
		measure("vaes", "vaes");
	}
	return 0;
}
