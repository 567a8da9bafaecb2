/* Any bytes into the framing code: each answer is held to the format, read anew here in the plainest way.
 *
 * The first byte chooses limit and capacity, the rest is the stream. Since random bytes almost never
 * carry a CRC that holds, half of the mutations end with mending the CRCs along the stream's frames,
 * so that what lies behind the checks is reached as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "crc32c.h"
#include "tfrecord.h"

#define MOST 4096 /* records that an input can hold, at 16 bytes each */

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *input, size_t size, size_t max_size);

#define HOLD(condition)                                               \
    do {                                                              \
        if (!(condition)) {                                           \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            abort();                                                  \
        }                                                             \
    } while (0)

typedef struct {
    tfrecord_cursor cursor;
    int64_t offsets[MOST], lengths[MOST];
} scanned;

static uint32_t masked(const uint8_t *data, size_t size) {
    return crc32c_mask(crc32c_portable.extend(0, data, size));
}

/* What scan must answer for the frame at `data`: its fault and need, or the frame's size. */
static size_t judge(const uint8_t *data, size_t size, uint64_t limit, tfrecord_cursor *says) {
    *says = (tfrecord_cursor){0};
    if (size == 0)
        return 0;
    if (size < TFRECORD_HEADER) {
        says->need = TFRECORD_HEADER;
        return 0;
    }
    uint64_t length = load64(data);
    if (load32(data + 8) != masked(data, 8)) {
        says->fault = TFRECORD_LENGTH_CRC;
    } else if (length > limit) {
        says->fault = TFRECORD_TOO_LARGE;
        says->need = length;
    } else if (length + TFRECORD_OVERHEAD > size) {
        says->need = length + TFRECORD_OVERHEAD;
    } else if (load32(data + 12 + length) != masked(data + 12, length)) {
        says->fault = TFRECORD_DATA_CRC;
    } else {
        return length + TFRECORD_OVERHEAD;
    }
    return 0;
}

static void check_scan(const uint8_t *data, size_t size, uint64_t limit, size_t capacity) {
    static scanned found;
    tfrecord_cursor says;
    size_t offset = 0;
    found.cursor = (tfrecord_cursor){0};
    tfrecord_scan(&found.cursor, data, size, limit, true, found.offsets, found.lengths, capacity);
    HOLD(found.cursor.count <= capacity);
    for (size_t i = 0; i < found.cursor.count; i++) {
        size_t frame = judge(data + offset, size - offset, limit, &says);
        HOLD(frame > 0);
        HOLD(found.offsets[i] == (int64_t)offset + TFRECORD_HEADER);
        HOLD(found.lengths[i] == (int64_t)frame - TFRECORD_OVERHEAD);
        offset += frame;
    }
    HOLD(found.cursor.offset == offset);
    if (found.cursor.count == capacity) {
        HOLD(found.cursor.fault == TFRECORD_OK && found.cursor.need == 0);
        return;
    }
    HOLD(judge(data + offset, size - offset, limit, &says) == 0);
    HOLD(found.cursor.fault == says.fault && found.cursor.need == says.need);
}

static void check_put(const uint8_t *data, size_t size, uint64_t limit) {
    static scanned found;
    const uint8_t *records[MOST];
    size_t sizes[MOST];
    found.cursor = (tfrecord_cursor){0};
    tfrecord_scan(&found.cursor, data, size, limit, true, found.offsets, found.lengths, MOST);
    for (size_t i = 0; i < found.cursor.count; i++) {
        records[i] = data + found.offsets[i];
        sizes[i] = (size_t)found.lengths[i];
    }
    uint8_t *again = malloc(found.cursor.offset + 1);
    HOLD(again != NULL);
    HOLD(tfrecord_put(again, records, sizes, found.cursor.count) == again + found.cursor.offset);
    HOLD(memcmp(again, data, found.cursor.offset) == 0);
    free(again);
}

static void check_walk(const uint8_t *data, size_t size, uint64_t limit, size_t capacity) {
    static int64_t frames[MOST];
    tfrecord_cursor cursor = {0};
    uint64_t offset = 0;
    tfrecord_walk(&cursor, data, size, limit, frames, capacity);
    for (size_t i = 0; i < cursor.count; i++) {
        HOLD(frames[i] == (int64_t)offset && offset + TFRECORD_HEADER <= size);
        HOLD(load32(data + offset + 8) == masked(data + offset, 8));
        HOLD(load64(data + offset) <= limit);
        offset += load64(data + offset) + TFRECORD_OVERHEAD;
    }
    HOLD(cursor.offset == offset);
}

static void check_find(const uint8_t *data, size_t size, uint64_t limit) {
    bool found;
    tfrecord_cursor says;
    size_t at = tfrecord_find(data, size, 0, limit, &found);
    for (size_t offset = 0; offset < at; offset++)
        HOLD(judge(data + offset, size - offset, limit, &says) == 0 && says.fault != TFRECORD_OK);
    HOLD(at <= size);
    HOLD((judge(data + at, size - at, limit, &says) > 0) == found);
    HOLD(says.fault == TFRECORD_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size == 0 || size > (size_t)16 * MOST)
        return 0;
    uint64_t limit = input[0] & 1 ? UINT64_MAX >> (input[0] & 2) : (uint64_t)1 << (input[0] >> 4);
    size_t capacity = input[0] & 4 ? MOST : (input[0] >> 4) + 1u;
    uint8_t *data = malloc(size); /* exactly what there is: one byte too many is seen */
    HOLD(data != NULL);
    memcpy(data, input + 1, --size);
    if (limit > TFRECORD_MAX_LIMIT)
        limit = TFRECORD_MAX_LIMIT;
    for (size_t i = 0; crc32c_kernels[i] != NULL; i++) {
        if (!crc32c_kernels[i]->supported())
            continue;
        crc32c_active = crc32c_kernels[i];
        HOLD(crc32c_extend(input[0], data, size) == crc32c_portable.extend(input[0], data, size));
        check_scan(data, size, limit, capacity);
        check_put(data, size, limit);
        check_walk(data, size, limit, capacity);
        check_find(data, size, limit);
    }
    free(data);
    return 0;
}

static void mend(uint8_t *data, size_t size, unsigned seed) {
    for (size_t offset = 0; size - offset >= TFRECORD_HEADER;) {
        uint8_t *frame = data + offset;
        if (seed % 3 == 0) /* a length that fits is rare among eight random bytes */
            store64(frame, load64(frame) % (size - offset));
        store32(frame + 8, masked(frame, 8));
        uint64_t length = load64(frame);
        if (size - offset < TFRECORD_OVERHEAD || length > size - offset - TFRECORD_OVERHEAD)
            return;
        if (seed % 5 != 0)
            store32(frame + 12 + length, masked(frame + 12, length));
        offset += length + TFRECORD_OVERHEAD;
        seed = seed * 1664525u + 1013904223u;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(input, size, max_size);
    if (size > 1 && seed % 2 == 0)
        mend(input + 1, size - 1, seed / 2);
    return size;
}
