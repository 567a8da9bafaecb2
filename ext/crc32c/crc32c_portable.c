/* CRC32C on any CPU. */
#include "crc32c/crc32c_portable.h"

#include "memory/bytes.h"
#include "crc32c/crc32c.h"
#include "crc32c/crc32c_polynomial.h"

uint32_t crc32c_table[8][256];

/* Has a priority, so that it runs before the constructor that chooses a kernel. */
__attribute__((constructor(101))) static void fill_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = (state >> 1) ^ ((state & 1) ? CRC32C_POLYNOMIAL : 0);
        crc32c_table[0][byte] = state;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t state = crc32c_table[k - 1][byte];
            crc32c_table[k][byte] = (state >> 8) ^ crc32c_table[0][state & 0xff];
        }
}

static uint32_t extend(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t state = ~crc;
    for (; size >= 8; size -= 8, data += 8) state = crc32c_portable_step(state, load64(data));
    for (; size > 0; size--, data++) state = (state >> 8) ^ crc32c_table[0][(state ^ *data) & 0xff];
    return ~(uint32_t)state;
}

static bool supported(void) { return true; }

const crc32c_kernel crc32c_portable = {"portable", CRC32C_NO_INSTRUCTION, supported, extend};
