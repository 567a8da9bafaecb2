/* The headers of a local file, its long records, and runs of its records: the only I/O of the core. */
#ifndef TFIO_STORE_TFRECORD_FILE_H
#define TFIO_STORE_TFRECORD_FILE_H

#include "tfrecord/tfrecord.h"

/* As `tfrecord_walk`, over the first `size` bytes of an open file. Returns 0, or an errno.
 *
 * Where records are long and the file is in the page cache, only headers are read. Elsewhere
 * everything is: a disk is faster in one go than from header to header.
 *
 * sums[i] becomes the sum of the records before frame i, and cursor->sum that of all, as
 * `tfrecord_scan` takes it; nobody checks the data against it. */
int tfrecord_walk_file(tfrecord_cursor *cursor, int descriptor, size_t size, uint64_t limit,
                       int64_t *frames, int64_t *sums, size_t capacity);

/* Reads `size` bytes at `offset` of an open file into `data`, and what is behind them into `tail`.
 * *crc becomes the masked CRC32C of `data`, taken while the bytes are in the cache; NULL for none.
 * *got says how many bytes came: fewer than asked for only where the file ends. Returns 0, or an
 * errno. */
int tfrecord_read_data(int descriptor, uint8_t *data, size_t size, uint8_t *tail, size_t tail_size,
                       size_t offset, uint32_t *crc, size_t *got);

/* A file open for reading, and what tells it from others: see `described` in storage/local.py. */
typedef struct {
    int descriptor;
    uint64_t inode, changed, size; /* changed: nanoseconds since 1970, modulo 2^64 */
} tfrecord_opened;

/* Opens a regular file. Returns 0, or an errno: EINVAL for what is no regular file. */
int tfrecord_open(const char *path, tfrecord_opened *file);

/* What `tfrecord_scan_file` reads: `size` bytes at `offset` of an open file. `find`: scan from the
 * first good frame on, which must lie near the beginning, or nothing is scanned. `cached`: read only
 * what is in memory. */
typedef struct {
    int descriptor;
    size_t offset, size;
    uint64_t limit;
    bool verify, find, cached;
    uint64_t read_ns, scan_ns; /* what it took so far */
} tfrecord_span;

/* Reads a span into `data` and scans it on the way, while it is in the cache; cursor->offset counts
 * from `data`. *done is how many bytes are there. Ends when all are scanned, with the first fault, or
 * when `capacity` is used up: then the next call goes on. Returns 0, or an errno: EAGAIN for what is
 * not in memory, ENODATA where the file ends before. */
int tfrecord_scan_file(tfrecord_cursor *cursor, tfrecord_span *span, uint8_t *data, size_t *done,
                       int64_t *offsets, int64_t *lengths, size_t capacity);

#endif
