/* The headers of a local file, for indexing it: the only I/O of the core. */
#ifndef TFIO_STORE_TFRECORD_FILE_H
#define TFIO_STORE_TFRECORD_FILE_H

#include "tfrecord/tfrecord.h"

/* As `tfrecord_walk`, over the first `size` bytes of an open file. Returns 0, or an errno.
 *
 * Where records are long and the file is in the page cache, only headers are read. Elsewhere
 * everything is: a disk is faster in one go than from header to header. */
int tfrecord_walk_file(tfrecord_cursor *cursor, int descriptor, size_t size, uint64_t limit,
                       int64_t *frames, size_t capacity);

#endif
