/* Joining two CRCs: appending n bytes to a multiplies the CRC of a by x^(8n) modulo the polynomial.
 *
 * Polynomials over GF(2) are kept as CRC32C keeps them, bit-reflected: bit 31 is x^0, bit 0 is x^31.
 * The powers x^(2^k) are found by squaring, so the work is O(log n) multiplications.
 */
#include "crc32c.h"

#define POLYNOMIAL 0x82f63b78u /* x^32 modulo the polynomial, reflected */
#define ONE 0x80000000u        /* x^0 */
#define X8 0x00800000u         /* x^8: one byte */

static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = ONE; bit != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = (b >> 1) ^ ((b & 1) ? POLYNOMIAL : 0); /* times x */
    }
    return product;
}

uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_length) {
    uint32_t shift = ONE;
    uint32_t square = X8;
    for (uint64_t n = second_length; n != 0; n >>= 1) {
        if (n & 1)
            shift = multiply(shift, square);
        square = multiply(square, square);
    }
    return multiply(shift, first) ^ second;
}
