/* The loops of tfrecord_loops.h, as compiled for each CRC instruction. */
#ifndef TFIO_STORE_TFRECORD_STRATEGY_H
#define TFIO_STORE_TFRECORD_STRATEGY_H

#include "tfrecord/tfrecord.h"

typedef struct {
    void (*scan)(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                 bool verify, int64_t *offsets, int64_t *lengths, size_t capacity);
    uint8_t *(*put)(uint8_t *frame, const uint8_t *const *records, const size_t *sizes,
                    size_t count);
} tfrecord_strategy;

extern const tfrecord_strategy tfrecord_portable;
#if defined(__x86_64__)
extern const tfrecord_strategy tfrecord_sse42;
#elif defined(__aarch64__)
extern const tfrecord_strategy tfrecord_armv8;
#endif

#endif
