#include "siv.h"

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

enum { STATE_AVX = 6 }; /* XCR0: the system keeps the registers of SSE and AVX */

__attribute__((target("xsave"))) static bool system_keeps_avx(void) { return (_xgetbv(0) & STATE_AVX) == STATE_AVX; }

/* More than the core asks for (AES, PCLMULQDQ, SSE4.1), so its keys have the layout of struct siv_key wherever this is
 * true. */
static bool has_sse(void) {
	unsigned int a, b, c, d;
	const unsigned int needed = bit_PCLMUL | bit_SSSE3 | bit_SSE4_1 | bit_AES;
	return __get_cpuid(1, &a, &b, &c, &d) && (c & needed) == needed;
}

static bool has_vaes(void) {
	unsigned int a, b, c, d;
	const unsigned int avx = bit_AVX | bit_OSXSAVE, wide = bit_VAES | bit_VPCLMULQDQ;
	if (!has_sse() || !__get_cpuid(1, &a, &b, &c, &d) || (c & avx) != avx || !system_keeps_avx()) return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2) && (c & wide) == wide;
}

const struct siv *siv_choose(const char *wanted) {
	if ((!wanted || strcmp(wanted, siv_vaes.name) == 0) && has_vaes()) return &siv_vaes;
	if ((!wanted || strcmp(wanted, siv_sse.name) == 0) && has_sse()) return &siv_sse;
	return NULL;
}
