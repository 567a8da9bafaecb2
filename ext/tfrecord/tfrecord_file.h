/* The headers of a local file, and its long records: the only I/O of the core. */
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

#endif
