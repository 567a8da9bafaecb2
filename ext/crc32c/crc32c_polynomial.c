/* See crc32c_polynomial.h; and joining two CRCs, which is one multiplication. */
#include "crc32c/crc32c_polynomial.h"

#include "crc32c/crc32c.h"

uint32_t crc32c_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = CRC32C_ONE; bit != 0; bit >>= 1) {
        if (a & bit) product ^= b;
        b = (b >> 1) ^ ((b & 1) ? CRC32C_POLYNOMIAL : 0); /* times x */
    }
    return product;
}

static uint32_t raise(uint32_t base, uint64_t n) {
    uint32_t power = CRC32C_ONE;
    for (; n != 0; n >>= 1) {
        if (n & 1) power = crc32c_multiply(power, base);
        base = crc32c_multiply(base, base);
    }
    return power;
}

uint32_t crc32c_power(uint64_t n) { return raise(CRC32C_ONE >> 1, n); }

/* Appending a byte multiplies by x^8. */
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_length) {
    return crc32c_multiply(raise(CRC32C_ONE >> 8, second_length), first) ^ second;
}
