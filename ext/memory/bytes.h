/* Little-endian numbers in memory, at any alignment. */
#ifndef TFIO_STORE_BYTES_H
#define TFIO_STORE_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LITTLE32(value) __builtin_bswap32(value)
#define LITTLE64(value) __builtin_bswap64(value)
#else
#define LITTLE32(value) (value)
#define LITTLE64(value) (value)
#endif

static inline uint32_t load32(const uint8_t *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return LITTLE32(value);
}

static inline uint64_t load64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return LITTLE64(value);
}

static inline void store32(uint8_t *p, uint32_t value) {
    value = LITTLE32(value);
    memcpy(p, &value, sizeof value);
}

static inline void store64(uint8_t *p, uint64_t value) {
    value = LITTLE64(value);
    memcpy(p, &value, sizeof value);
}

#endif
