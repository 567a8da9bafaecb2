/* CRC32C by folding 256-bit vectors (Intel Alder Lake and later without AVX-512, AMD Zen 3). */
#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target(CRC32C_SSE42_TARGET ",avx2,vpclmulqdq")))
#define VECTOR __m256i
#define LANES 2
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define BROADCAST(pair) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(pair)))
#define XOR3(a, b, c) _mm256_xor_si256(_mm256_xor_si256(a, b), c)
#define LOW(a, k) _mm256_clmulepi64_epi128(a, k, 0x00)
#define HIGH(a, k) _mm256_clmulepi64_epi128(a, k, 0x11)
#define WITH_CRC(crc, v)                                                                           \
    _mm256_xor_si256(_mm256_zextsi128_si256(_mm_cvtsi32_si128((int)(uint32_t)(crc))), v)
#define LANE(v, i) _mm256_extracti128_si256(v, i)

#include "crc32c/crc32c_fold.h"
#include "crc32c/crc32c_x86.h"

static bool supported(void) { return x86_folds(X86_AVX2, X86_SAVES_YMM); }

const crc32c_kernel crc32c_avx2 = {"avx2-vpclmulqdq", CRC32C_SSE42, supported, extend};
#endif
