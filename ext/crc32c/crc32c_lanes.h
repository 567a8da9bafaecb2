/* Three lanes. A CRC instruction answers after three cycles, but one can start in each cycle. So three
 * parts of the data are taken at once. A carry-less multiplication joins their CRCs.
 *
 * A file that includes this defines TARGET (attributes of functions), STEP(state, word), BYTE(state,
 * byte) and MULTIPLY(state, constant), the 64-bit carry-less product of two 32-bit values.
 */
#include "memory/bytes.h"
#include "crc32c/crc32c.h"
#include "crc32c/crc32c_polynomial.h"

#define MOST_WORDS 128   /* of a lane: the three then span 3 KiB */
#define FEWEST_BYTES 192 /* less is not worth the joining */

/* shift[k] moves a CRC over k words. In the reflected representation the product of states a and b
 * stands for a * b * x, and STEP multiplies by x^32: hence the 33 less. */
static uint32_t shift[2 * MOST_WORDS + 1];

__attribute__((constructor)) static void fill_shift(void) {
    uint32_t word = crc32c_power(64);
    shift[1] = crc32c_power(64 - 33);
    for (int k = 2; k <= 2 * MOST_WORDS; k++) shift[k] = crc32c_multiply(shift[k - 1], word);
}

/* Takes 3 * words words of data. */
TARGET static inline uint64_t three_lanes(uint64_t a, const uint8_t *data, size_t words) {
    uint64_t b = 0, c = 0;
    const uint8_t *end = data + 8 * (words - 1);
    for (; data < end; data += 8) {
        a = STEP(a, load64(data));
        b = STEP(b, load64(data + 8 * words));
        c = STEP(c, load64(data + 16 * words));
    }
    a = STEP(a, load64(data));
    b = STEP(b, load64(data + 8 * words));
    uint64_t joined = MULTIPLY(a, shift[2 * words]) ^ MULTIPLY(b, shift[words]);
    return STEP(c, load64(data + 16 * words) ^ joined);
}

TARGET static uint32_t extend(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t state = ~crc;
    while (size >= FEWEST_BYTES) {
        size_t words = size / 24 < MOST_WORDS ? size / 24 : MOST_WORDS;
        state = three_lanes(state, data, words);
        data += 24 * words;
        size -= 24 * words;
    }
    for (; size >= 8; size -= 8, data += 8) state = STEP(state, load64(data));
    for (; size > 0; size--, data++) state = BYTE(state, *data);
    return ~(uint32_t)state;
}
