/* See tfrecord.h. */
#include "tfrecord.h"

#include <string.h>

#include "crc32c.h"

static inline uint64_t load64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline uint32_t load32(const uint8_t *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return value;
}

static inline void store64(uint8_t *p, uint64_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(p, &value, sizeof value);
}

static inline void store32(uint8_t *p, uint32_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    memcpy(p, &value, sizeof value);
}

static inline uint32_t masked_crc(const uint8_t *data, size_t size) {
    return crc32c_mask(crc32c_extend(0, data, size));
}

/* Reads a whole header; the copy keeps what was checked and what is used the same bytes. */
static inline tfrecord_fault read_header(const uint8_t *frame, uint64_t limit, uint64_t *length) {
    uint8_t header[TFRECORD_HEADER];
    memcpy(header, frame, sizeof header);
    *length = load64(header);
    if (load32(header + 8) != masked_crc(header, 8))
        return TFRECORD_LENGTH_CRC;
    return *length > limit ? TFRECORD_TOO_LARGE : TFRECORD_OK;
}

static inline uint64_t clip(uint64_t limit) {
    return limit < TFRECORD_MAX_LIMIT ? limit : TFRECORD_MAX_LIMIT;
}

uint8_t *tfrecord_put(uint8_t *frame, const uint8_t *data, size_t size) {
    uint8_t *copy = frame + TFRECORD_HEADER;
    store64(frame, size);
    store32(frame + 8, masked_crc(frame, 8));
    if (size > 0)
        memcpy(copy, data, size);
    store32(copy + size, masked_crc(copy, size));
    return copy + size + TFRECORD_FOOTER;
}

void tfrecord_scan(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                   bool verify, int64_t *offsets, int64_t *lengths, size_t capacity) {
    size_t offset = cursor->offset;
    size_t count = 0;
    uint64_t length = 0;
    limit = clip(limit);
    *cursor = (tfrecord_cursor){.offset = offset};
    while (count < capacity && offset < size) {
        size_t left = size - offset;
        if (left < TFRECORD_HEADER) {
            cursor->need = TFRECORD_HEADER;
            break;
        }
        cursor->fault = read_header(data + offset, limit, &length);
        if (cursor->fault != TFRECORD_OK) {
            cursor->need = cursor->fault == TFRECORD_TOO_LARGE ? length : 0;
            break;
        }
        if (left < TFRECORD_OVERHEAD || left - TFRECORD_OVERHEAD < length) {
            cursor->need = length + TFRECORD_OVERHEAD;
            break;
        }
        const uint8_t *record = data + offset + TFRECORD_HEADER;
        if (verify && load32(record + length) != masked_crc(record, length)) {
            cursor->fault = TFRECORD_DATA_CRC;
            break;
        }
        offsets[count] = (int64_t)(offset + TFRECORD_HEADER);
        lengths[count] = (int64_t)length;
        count++;
        offset += length + TFRECORD_OVERHEAD;
    }
    cursor->offset = offset;
    cursor->count = count;
}

void tfrecord_walk(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                   int64_t *frames, size_t capacity) {
    size_t offset = cursor->offset;
    size_t count = 0;
    uint64_t length = 0;
    limit = clip(limit);
    *cursor = (tfrecord_cursor){.offset = offset};
    while (count < capacity && offset < size) {
        if (size - offset < TFRECORD_HEADER) {
            cursor->need = TFRECORD_HEADER;
            break;
        }
        cursor->fault = read_header(data + offset, limit, &length);
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

size_t tfrecord_find(const uint8_t *data, size_t size, size_t start, uint64_t limit, bool *found) {
    uint64_t length = 0;
    limit = clip(limit);
    *found = false;
    for (size_t offset = start; offset < size; offset++) {
        size_t left = size - offset;
        if (left < TFRECORD_HEADER)
            return offset;
        if (load64(data + offset) > limit ||
            read_header(data + offset, limit, &length) != TFRECORD_OK)
            continue;
        if (left < TFRECORD_OVERHEAD || left - TFRECORD_OVERHEAD < length)
            return offset;
        const uint8_t *record = data + offset + TFRECORD_HEADER;
        if (load32(record + length) == masked_crc(record, length)) {
            *found = true;
            return offset;
        }
    }
    return size;
}
