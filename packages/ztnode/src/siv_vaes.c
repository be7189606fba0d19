/* VAES and VPCLMULQDQ with 256-bit registers, two blocks in each: AVX-512 is not needed. */
#include <immintrin.h>

#define TARGET __attribute__((target("vaes,vpclmulqdq,avx2,aes,pclmul")))
#define LANES 2
typedef __m256i vector;

#define V_ZERO _mm256_setzero_si256()
#define V_LOAD(from) _mm256_loadu_si256((const __m256i *)(from))
#define V_STORE(to, value) _mm256_storeu_si256((__m256i *)(to), value)
#define V_XOR(a, b) _mm256_xor_si256(a, b)
#define V_ADD(a, b) _mm256_add_epi32(a, b)
#define V_STEP(first) _mm256_set_epi32(0, 0, 0, (first) + 1, 0, 0, 0, first)
#define V_BROADCAST(block) _mm256_broadcastsi128_si256(block)
#define V_FIRST(block) _mm256_zextsi128_si256(block)
#define V_SUM(value) _mm_xor_si128(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1))
#define V_SWAPPED(value) _mm256_shuffle_epi32(value, 0x4e)
#define V_BOTH_HIGH(value) _mm256_shuffle_epi32(value, 0xee)
#define V_UP(value) _mm256_slli_si256(value, 8)
#define V_DOWN(value) _mm256_srli_si256(value, 8)
#define V_SHIFT_LEFT(value, bits) _mm256_slli_epi64(value, bits)
#define V_SHIFT_RIGHT(value, bits) _mm256_srli_epi64(value, bits)
#define V_AND(a, b) _mm256_and_si256(a, b)
#define V_SUBTRACT(a, b) _mm256_sub_epi64(a, b)
#define V_POWERS(from) _mm256_set_m128i(load(key->power[2 - (from)]), load(key->power[3 - (from)]))
#define V_REVERSED(value)                                                                                                  \
	_mm256_shuffle_epi8(value,                                                                                             \
	                    _mm256_broadcastsi128_si256(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)))
#define V_MULTIPLY(a, b, which) _mm256_clmulepi64_epi128(a, b, which)
#define V_ROUND(state, key) _mm256_aesenc_epi128(state, key)
#define V_LAST_ROUND(state, key) _mm256_aesenclast_epi128(state, key)

#include "siv_kernel.h"

const struct siv siv_vaes = {"vaes", kernel_mac, kernel_crypt, kernel_seal, kernel_open};
