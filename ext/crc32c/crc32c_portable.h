/* One step of CRC32C on any CPU: slicing-by-8, eight table look-ups for eight bytes. */
#ifndef TFIO_STORE_CRC32C_PORTABLE_H
#define TFIO_STORE_CRC32C_PORTABLE_H

#include <stdint.h>

/* [k][b]: what byte b adds to the state when k more bytes follow it. */
extern uint32_t crc32c_table[8][256];

static inline uint64_t crc32c_portable_step(uint64_t state, uint64_t word) {
    uint64_t x = state ^ word;
    return crc32c_table[7][x & 0xff] ^ crc32c_table[6][(x >> 8) & 0xff] ^
           crc32c_table[5][(x >> 16) & 0xff] ^ crc32c_table[4][(x >> 24) & 0xff] ^
           crc32c_table[3][(x >> 32) & 0xff] ^ crc32c_table[2][(x >> 40) & 0xff] ^
           crc32c_table[1][(x >> 48) & 0xff] ^ crc32c_table[0][x >> 56];
}

/* The same for four bytes. */
static inline uint64_t crc32c_portable_half(uint64_t state, uint32_t half) {
    uint32_t x = (uint32_t)state ^ half;
    return crc32c_table[3][x & 0xff] ^ crc32c_table[2][(x >> 8) & 0xff] ^
           crc32c_table[1][(x >> 16) & 0xff] ^ crc32c_table[0][x >> 24];
}

#endif
