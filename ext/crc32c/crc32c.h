/* CRC32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TFRecord frames.
 *
 * The kernel is chosen once, when the library is loaded. A CRC here is the finished value, inverted
 * before and after. So crc32c_extend(crc32c_extend(0, a), b) is the CRC of a followed by b.
 */
#ifndef TFIO_STORE_CRC32C_H
#define TFIO_STORE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The CPU has a CRC32C instruction. Loops over short records use it in place. */
typedef enum { CRC32C_NO_INSTRUCTION, CRC32C_SSE42, CRC32C_ARMV8 } crc32c_instruction;

typedef struct {
    const char *name;
    crc32c_instruction instruction;
    bool (*supported)(void);
    uint32_t (*extend)(uint32_t crc, const uint8_t *data, size_t size);
} crc32c_kernel;

/* The kernel in use. */
extern const crc32c_kernel *crc32c_active;

/* Every kernel of this build, fastest first, NULL at the end; supported() says if this CPU runs it. */
extern const crc32c_kernel *const crc32c_kernels[];

/* Extends `crc`, the CRC32C of what came before, by `data`. Start with 0. */
static inline uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t size) {
    return crc32c_active->extend(crc, data, size);
}

/* CRC32C of a followed by b, from those of a and of b and the length of b, in O(log length). */
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_length);

/* TFRecord stores CRCs masked: the CRC of bytes that hold their own CRC says little. */
static inline uint32_t crc32c_mask(uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static inline uint32_t crc32c_unmask(uint32_t masked) {
    uint32_t rotated = masked - 0xa282ead8u;
    return (rotated >> 17) | (rotated << 15);
}

extern const crc32c_kernel crc32c_portable;
#if defined(__x86_64__)
extern const crc32c_kernel crc32c_avx512;
extern const crc32c_kernel crc32c_avx2;
extern const crc32c_kernel crc32c_sse42;
#elif defined(__aarch64__)
extern const crc32c_kernel crc32c_armv8;
#endif

#endif
