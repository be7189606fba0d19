/* AES-NI and PCLMULQDQ with 128-bit registers: for CPUs without AVX2 as well, such as the Celeron J4125. */
#include <immintrin.h>

#define TARGET __attribute__((target("aes,pclmul,ssse3,sse4.1")))
#define LANES 1
typedef __m128i vector;

#define V_ZERO _mm_setzero_si128()
#define V_LOAD(from) _mm_loadu_si128((const __m128i *)(from))
#define V_STORE(to, value) _mm_storeu_si128((__m128i *)(to), value)
#define V_XOR(a, b) _mm_xor_si128(a, b)
#define V_ADD(a, b) _mm_add_epi32(a, b)
#define V_STEP(first) _mm_set_epi32(0, 0, 0, first)
#define V_BROADCAST(block) (block)
#define V_FIRST(block) (block)
#define V_SUM(value) (value)
#define V_SWAPPED(value) _mm_shuffle_epi32(value, 0x4e)
#define V_BOTH_HIGH(value) _mm_shuffle_epi32(value, 0xee)
#define V_UP(value) _mm_slli_si128(value, 8)
#define V_DOWN(value) _mm_srli_si128(value, 8)
#define V_SHIFT_LEFT(value, bits) _mm_slli_epi64(value, bits)
#define V_SHIFT_RIGHT(value, bits) _mm_srli_epi64(value, bits)
#define V_AND(a, b) _mm_and_si128(a, b)
#define V_SUBTRACT(a, b) _mm_sub_epi64(a, b)
#define V_POWERS(from) load(key->power[3 - (from)])
#define V_REVERSED(value) reversed(value)
#define V_MULTIPLY(a, b, which) _mm_clmulepi64_si128(a, b, which)
#define V_ROUND(state, key) _mm_aesenc_si128(state, key)
#define V_LAST_ROUND(state, key) _mm_aesenclast_si128(state, key)

#include "siv_kernel.h"

const struct siv siv_sse = {"sse", kernel_mac, kernel_crypt, kernel_seal, kernel_open};
