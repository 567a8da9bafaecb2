/* See tfrecord.h: the choice of loops, and what is not worth a choice. */
#include "tfrecord/tfrecord.h"

#include "memory/bytes.h"
#include "crc32c/crc32c.h"
#include "tfrecord/tfrecord_strategy.h"

static const tfrecord_strategy *strategy(void) {
    switch (crc32c_active->instruction) {
#if defined(__x86_64__)
    case CRC32C_SSE42: return &tfrecord_sse42;
#elif defined(__aarch64__)
    case CRC32C_ARMV8: return &tfrecord_armv8;
#endif
    default: return &tfrecord_portable;
    }
}

static uint64_t clip(uint64_t limit) {
    return limit < TFRECORD_MAX_LIMIT ? limit : TFRECORD_MAX_LIMIT;
}

uint8_t *tfrecord_put(uint8_t *frame, const uint8_t *const *records, const size_t *sizes,
                      size_t count) {
    return strategy()->put(frame, records, sizes, count);
}

void tfrecord_scan(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                   bool verify, int64_t *offsets, int64_t *lengths, size_t capacity) {
    strategy()->scan(cursor, data, size, clip(limit), verify, offsets, lengths, capacity);
}

static uint32_t masked_crc(const uint8_t *data, size_t size) {
    return crc32c_mask(crc32c_extend(0, data, size));
}

/* The copy keeps what is checked and what is used the same bytes. */
static tfrecord_fault read_header(const uint8_t *frame, uint64_t limit, uint64_t *length) {
    uint8_t header[TFRECORD_HEADER];
    memcpy(header, frame, sizeof header);
    *length = load64(header);
    if (load32(header + 8) != masked_crc(header, 8)) return TFRECORD_LENGTH_CRC;
    return *length > limit ? TFRECORD_TOO_LARGE : TFRECORD_OK;
}

void tfrecord_walk(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                   int64_t *frames, size_t capacity) {
    size_t offset = cursor->offset, count = 0;
    *cursor = (tfrecord_cursor){0};
    while (count < capacity && offset < size) {
        uint64_t length = 0;
        if (size - offset < TFRECORD_HEADER) {
            cursor->need = TFRECORD_HEADER;
            break;
        }
        cursor->fault = read_header(data + offset, clip(limit), &length);
        if (cursor->fault != TFRECORD_OK) {
            cursor->need = cursor->fault == TFRECORD_TOO_LARGE ? length : 0;
            break;
        }
        frames[count++] = (int64_t)offset;
        offset += length + TFRECORD_OVERHEAD;
    }
    cursor->offset = offset;
    cursor->count = count;
}

size_t tfrecord_find(const uint8_t *data, size_t size, size_t start, uint64_t limit, bool final,
                     uint64_t *patience, bool *found) {
    *found = false;
    limit = clip(limit);
    for (size_t offset = start; offset < size; offset++) {
        uint64_t length = 0;
        size_t left = size - offset;
        if (left < TFRECORD_HEADER) return final ? size : offset;
        if (load64(data + offset) > limit || /* dismisses most offsets without a CRC */
            read_header(data + offset, limit, &length) != TFRECORD_OK)
            continue;
        if (left < TFRECORD_OVERHEAD || left - TFRECORD_OVERHEAD < length) {
            if (final) continue;
            return offset;
        }
        if (length > TFRECORD_SHORT && *patience == 0) continue;
        const uint8_t *record = data + offset + TFRECORD_HEADER;
        if (load32(record + length) == masked_crc(record, length)) {
            *found = true;
            return offset;
        }
        *patience -= length < *patience ? length : *patience;
    }
    return size;
}
