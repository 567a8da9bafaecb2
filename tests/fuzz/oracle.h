/* TFRecord frames read in the plainest way, which the answers of the code under test are held to.
 *
 * Neither sanitizers nor coverage look at this file: it would be most of the work, and what it does on
 * an input says nothing about the code under test. */
#ifndef TFIO_STORE_FUZZ_ORACLE_H
#define TFIO_STORE_FUZZ_ORACLE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory/bytes.h"
#include "tfrecord/tfrecord.h"

#define HOLD(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define PLAIN __attribute__((no_sanitize("address", "undefined", "coverage"), unused))

enum { MOST = 4096 }; /* records of one input, which has 16 bytes for each at least */

static uint32_t oracle_table[256];

PLAIN __attribute__((constructor)) static void fill_oracle_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++) state = (state >> 1) ^ ((state & 1) ? 0x82f63b78u : 0);
        oracle_table[byte] = state;
    }
}

PLAIN static uint32_t oracle_crc(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) crc = (crc >> 8) ^ oracle_table[(crc ^ data[i]) & 0xff];
    return ~crc;
}

PLAIN static uint32_t oracle_masked(const uint8_t *data, size_t size) {
    uint32_t crc = oracle_crc(0, data, size);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

PLAIN static bool header_holds(const uint8_t *frame) {
    return load32(frame + 8) == oracle_masked(frame, 8);
}

/* What must be said of the frame at `data`: its fault and need, or the frame's size. */
PLAIN static size_t judge(const uint8_t *data, size_t size, uint64_t limit, bool verify,
                          tfrecord_cursor *says) {
    *says = (tfrecord_cursor){0};
    if (size == 0) return 0;
    if (size < TFRECORD_HEADER) {
        says->need = TFRECORD_HEADER;
        return 0;
    }
    uint64_t length = load64(data);
    if (!header_holds(data)) {
        says->fault = TFRECORD_LENGTH_CRC;
    } else if (length > limit) {
        says->fault = TFRECORD_TOO_LARGE;
        says->need = length;
    } else if (length + TFRECORD_OVERHEAD > size) {
        says->need = length + TFRECORD_OVERHEAD;
    } else if (verify && load32(data + 12 + length) != oracle_masked(data + 12, length)) {
        says->fault = TFRECORD_DATA_CRC;
    } else {
        return length + TFRECORD_OVERHEAD;
    }
    return 0;
}

/* All the records of a stream, and what is at its end. */
typedef struct {
    size_t count;
    int64_t offsets[MOST], lengths[MOST];
    size_t end;           /* behind the last good frame */
    tfrecord_cursor says; /* of what lies there */
} truth;

PLAIN static void read_truth(truth *all, const uint8_t *data, size_t size, size_t start,
                             uint64_t limit, bool verify) {
    size_t frame;
    all->count = 0;
    all->end = start < size ? start : size;
    while ((frame = judge(data + all->end, size - all->end, limit, verify, &all->says)) > 0) {
        HOLD(all->count < MOST);
        all->offsets[all->count] = (int64_t)all->end + TFRECORD_HEADER;
        all->lengths[all->count++] = (int64_t)frame - TFRECORD_OVERHEAD;
        all->end += frame;
    }
}

/* A limit on records, by a byte of the input. */
PLAIN static uint64_t choose_limit(uint8_t byte) {
    uint64_t limit = byte & 1 ? UINT64_MAX >> (byte & 2) : (uint64_t)1 << (byte >> 4);
    return limit < TFRECORD_MAX_LIMIT ? limit : TFRECORD_MAX_LIMIT;
}

/* Random bytes almost never carry a CRC that holds: this makes most of a stream's frames good. */
PLAIN static void mend(uint8_t *data, size_t size, unsigned seed) {
    for (size_t offset = 0; size - offset >= TFRECORD_HEADER;) {
        uint8_t *frame = data + offset;
        if (seed % 3 == 0) /* a length that fits is rare among eight random bytes */
            store64(frame, load64(frame) % (size - offset));
        store32(frame + 8, oracle_masked(frame, 8));
        uint64_t length = load64(frame);
        if (size - offset < TFRECORD_OVERHEAD || length > size - offset - TFRECORD_OVERHEAD) return;
        if (seed % 5 != 0) store32(frame + 12 + length, oracle_masked(frame + 12, length));
        offset += length + TFRECORD_OVERHEAD;
        seed = seed * 1664525u + 1013904223u;
    }
}

#endif
