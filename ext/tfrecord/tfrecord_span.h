/* A span of a local file, read and scanned from end to end by any thread. */
#ifndef TFIO_STORE_TFRECORD_SPAN_H
#define TFIO_STORE_TFRECORD_SPAN_H

#include "tasks/tasks.h"
#include "tfrecord/tfrecord_file.h"

typedef struct {
    task task;
    /* What is asked for: see `tfrecord_span`. */
    tfrecord_span span;
    size_t expected; /* so many records at most; SIZE_MAX where it is not known */
    size_t headroom; /* bytes that are wanted in front of the data */
    uint32_t summed; /* the sum that the scan begins with */
    /* What comes of it. */
    int error; /* an errno, EINPROGRESS before it has run */
    tfrecord_opened file;
    tfrecord_cursor cursor;
    uint8_t *memory; /* of the pool: `headroom`, then the data */
    size_t capacity;
    int64_t *offsets; /* of the pool: `room` offsets, then as many lengths */
    size_t index_capacity, room;
    char path[];
} tfrecord_task;

/* Entries of a list of records, before it is known how many lie in `size` bytes. */
#define TFRECORD_FEWEST_ENTRIES ((size_t)256)

/* So many at first, and `most` at most: rather too few than too many, for lists double as records
 * turn out to be short. */
size_t tfrecord_first_room(size_t size, size_t most);

/* Its task is idle. NULL if there is no memory. */
tfrecord_task *tfrecord_new_task(const char *path, const tfrecord_span *span);

#endif
