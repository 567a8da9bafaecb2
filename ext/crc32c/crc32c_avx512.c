/* CRC32C by folding 512-bit vectors (Intel since Ice Lake, AMD since Zen 4). */
#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target(CRC32C_SSE42_TARGET ",avx512f,vpclmulqdq")))
#define VECTOR __m512i
#define LANES 4
#define LOAD(p) _mm512_loadu_si512(p)
#define BROADCAST(pair) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(pair)))
#define XOR3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define LOW(a, k) _mm512_clmulepi64_epi128(a, k, 0x00)
#define HIGH(a, k) _mm512_clmulepi64_epi128(a, k, 0x11)
#define WITH_CRC(crc, v)                                                                           \
    _mm512_xor_si512(_mm512_zextsi128_si512(_mm_cvtsi32_si128((int)(uint32_t)(crc))), v)
#define LANE(v, i) _mm512_extracti32x4_epi32(v, i)

#include "crc32c/crc32c_fold.h"
#include "crc32c/crc32c_x86.h"

static bool supported(void) { return x86_folds(X86_AVX512F, X86_SAVES_ZMM); }

const crc32c_kernel crc32c_avx512 = {"avx512-vpclmulqdq", CRC32C_SSE42, supported, extend};
#endif
