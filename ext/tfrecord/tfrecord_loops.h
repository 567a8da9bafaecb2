/* The two loops that every record passes through, compiled once per CRC instruction so that a short
 * record's CRC is a few instructions in place: the CPU then works on several records at a time.
 *
 * A file that includes this defines LOOPS, the name of the result, TARGET (attributes of functions),
 * STEP(state, word) over eight bytes, and HALF(state, half) over four.
 */
#include <string.h>

#include "memory/bytes.h"
#include "crc32c/crc32c.h"
#include "tfrecord/tfrecord_strategy.h"

#define SHORT 256 /* from here on the kernel's call pays */

TARGET static inline uint32_t masked_length_crc(uint64_t length) {
    return crc32c_mask(~(uint32_t)STEP(0xffffffffu, length));
}

/* The state after the last 0 to 7 bytes, which are the top ones of `word`, as one step without a
 * branch. `bits` is how many they have. Twice a shift, since one by 64 is not defined. */
TARGET static inline uint64_t step_over_tail(uint64_t state, uint64_t word, unsigned bits) {
    unsigned rest = 63 - bits;
    uint64_t kept = word & (UINT64_MAX << 1 << rest);
    return STEP(0, kept ^ (state << 1 << rest)) ^ (state >> bits);
}

/* The CRC of a record that lies in a frame: the header before it makes it safe to read the 8 bytes
 * that end with the record's last. */
TARGET static inline uint32_t masked_data_crc(const uint8_t *data, size_t size) {
    if (size >= SHORT) return crc32c_mask(crc32c_extend(0, data, size));
    uint64_t state = 0xffffffffu;
    const uint8_t *words_end = data + (size & ~(size_t)7);
    const uint8_t *last = data + size - 8;
    for (; data < words_end; data += 8) state = STEP(state, load64(data));
    state = step_over_tail(state, load64(last), 8 * (unsigned)(size & 7));
    return crc32c_mask(~(uint32_t)state);
}

TARGET static inline tfrecord_fault check_header(const uint8_t *frame, uint64_t limit,
                                                 uint64_t *length) {
    *length = load64(frame);
    if (load32(frame + 8) != masked_length_crc(*length)) return TFRECORD_LENGTH_CRC;
    return *length > limit ? TFRECORD_TOO_LARGE : TFRECORD_OK;
}

TARGET static void scan(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                        bool verify, int64_t *offsets, int64_t *lengths, size_t capacity) {
    size_t offset = cursor->offset, count = 0;
    uint64_t sum = ~cursor->sum;
    *cursor = (tfrecord_cursor){0};
    while (count < capacity && offset < size) {
        uint64_t length = 0;
        size_t left = size - offset;
        if (left < TFRECORD_HEADER) {
            cursor->need = TFRECORD_HEADER;
            break;
        }
        cursor->fault = check_header(data + offset, limit, &length);
        if (cursor->fault != TFRECORD_OK) {
            cursor->need = cursor->fault == TFRECORD_TOO_LARGE ? length : 0;
            break;
        }
        if (left < TFRECORD_OVERHEAD || left - TFRECORD_OVERHEAD < length) {
            cursor->need = length + TFRECORD_OVERHEAD;
            break;
        }
        const uint8_t *record = data + offset + TFRECORD_HEADER;
        const uint32_t stored = load32(record + length);
        if (verify && stored != masked_data_crc(record, length)) {
            cursor->fault = TFRECORD_DATA_CRC;
            break;
        }
        sum = HALF(sum, stored);
        offsets[count] = (int64_t)(offset + TFRECORD_HEADER);
        lengths[count++] = (int64_t)length;
        offset += length + TFRECORD_OVERHEAD;
    }
    cursor->offset = offset;
    cursor->count = count;
    cursor->sum = ~(uint32_t)sum;
}

/* Copies a short record into its frame, and takes its CRC on the way. */
TARGET static inline uint32_t copy_short(uint8_t *copy, const uint8_t *data, size_t size) {
    uint64_t state = 0xffffffffu, word = 0;
    size_t done = 0;
    for (; done + 8 <= size; done += 8) {
        word = load64(data + done);
        store64(copy + done, word);
        state = STEP(state, word);
    }
    if (size >= 8) { /* the last eight bytes once more, which overlap what is copied already */
        word = load64(data + size - 8);
        store64(copy + size - 8, word);
    } else {
        for (; done < size; done++) {
            copy[done] = data[done];
            word = word >> 8 | (uint64_t)data[done] << 56;
        }
    }
    state = step_over_tail(state, word, 8 * (unsigned)(size & 7));
    return crc32c_mask(~(uint32_t)state);
}

TARGET static uint8_t *put(uint8_t *frame, const uint8_t *const *records, const size_t *sizes,
                           size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t size = sizes[i];
        uint8_t *copy = frame + TFRECORD_HEADER;
        store64(frame, size);
        store32(frame + 8, masked_length_crc(size));
        if (size < SHORT) {
            store32(copy + size, copy_short(copy, records[i], size));
        } else {
            memcpy(copy, records[i], size);
            store32(copy + size, masked_data_crc(copy, size));
        }
        frame = copy + size + TFRECORD_FOOTER;
    }
    return frame;
}

const tfrecord_strategy LOOPS = {scan, put};
