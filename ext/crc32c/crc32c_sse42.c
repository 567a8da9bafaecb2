/* CRC32C with the instruction of SSE4.2, lanes joined by PCLMULQDQ (any x86-64 CPU since 2010). */
#if defined(__x86_64__)
#include "crc32c/crc32c_sse42.h"
#include "crc32c/crc32c_x86.h"

#include <wmmintrin.h>

#define TARGET __attribute__((target(CRC32C_SSE42_TARGET)))
#define STEP CRC32C_SSE42_STEP
#define BYTE CRC32C_SSE42_BYTE
#define MULTIPLY multiply

TARGET static inline unsigned long long multiply(uint64_t a, uint32_t b) {
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi32_si128((int)b), 0);
    return (unsigned long long)_mm_cvtsi128_si64(product);
}

#include "crc32c/crc32c_lanes.h"

static bool supported(void) { return x86_has_crc(); }

const crc32c_kernel crc32c_sse42 = {"sse4.2", CRC32C_SSE42, supported, extend};
#endif
