/* CRC32C with the instruction of SSE4.2: eight bytes per step. */
#if defined(__x86_64__)
#include <nmmintrin.h>
#include <string.h>

#include "crc32c.h"

__attribute__((target("sse4.2"))) static uint32_t extend(uint32_t crc, const uint8_t *data,
                                                         size_t size) {
    uint64_t state = ~crc;
    uint64_t word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        state = _mm_crc32_u64(state, word);
    }
    uint32_t crc32 = (uint32_t)state;
    for (; size > 0; size--, data++)
        crc32 = _mm_crc32_u8(crc32, *data);
    return ~crc32;
}

static bool supported(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}

const crc32c_kernel crc32c_sse42 = {"sse4.2", supported, extend};
#endif
