/* Polynomials over GF(2) modulo that of CRC32C, as CRC32C keeps them: bit 31 is x^0, bit 0 is x^31. */
#ifndef TFIO_STORE_CRC32C_POLYNOMIAL_H
#define TFIO_STORE_CRC32C_POLYNOMIAL_H

#include <stdint.h>

#define CRC32C_POLYNOMIAL 0x82f63b78u /* x^32 */
#define CRC32C_ONE 0x80000000u        /* x^0 */

/* a * b */
uint32_t crc32c_multiply(uint32_t a, uint32_t b);

/* x^n, by squaring: O(log n) multiplications */
uint32_t crc32c_power(uint64_t n);

#endif
