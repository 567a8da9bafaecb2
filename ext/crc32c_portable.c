/* CRC32C on any CPU: slicing-by-8, eight table look-ups for eight bytes. */
#include <string.h>

#include "crc32c.h"

#define POLYNOMIAL 0x82f63b78u

/* table[k][b]: what byte b adds to the CRC when k more bytes follow it. */
static uint32_t table[8][256];

/* Runs before the constructors that have no priority, hence before a kernel is chosen. */
__attribute__((constructor(101))) static void fill_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? POLYNOMIAL : 0);
        table[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = table[k - 1][byte];
            table[k][byte] = (crc >> 8) ^ table[0][crc & 0xff];
        }
}

static uint32_t extend(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (; size >= 8; size -= 8, data += 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                              (uint32_t)data[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][(low >> 8) & 0xff] ^ table[5][(low >> 16) & 0xff] ^
              table[4][low >> 24] ^ table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^
              table[0][data[7]];
    }
    for (; size > 0; size--, data++)
        crc = (crc >> 8) ^ table[0][(crc ^ *data) & 0xff];
    return ~crc;
}

static bool supported(void) {
    return true;
}

const crc32c_kernel crc32c_portable = {"portable", supported, extend};
