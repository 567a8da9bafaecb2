/* TFRecord framing in plain C: no Python.h, no allocation, no I/O.
 *
 * A frame is
 *     uint64  length            little-endian
 *     uint32  masked CRC32C of the 8 length bytes
 *     byte    data[length]
 *     uint32  masked CRC32C of data
 *
 * The length is believed only after its CRC holds and it is within the caller's limit. All functions
 * read each header once, so that bytes changing under a scan can make it wrong but not unsafe.
 */
#ifndef TFIO_STORE_TFRECORD_H
#define TFIO_STORE_TFRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TFRECORD_HEADER 12
#define TFRECORD_FOOTER 4
#define TFRECORD_OVERHEAD (TFRECORD_HEADER + TFRECORD_FOOTER)

/* Limits on a record are clipped to this, so that sums of an offset and a frame can't overflow. */
#define TFRECORD_MAX_LIMIT ((uint64_t)1 << 62)

typedef enum {
    TFRECORD_OK = 0,
    TFRECORD_LENGTH_CRC, /* the length's CRC does not hold */
    TFRECORD_DATA_CRC,   /* the data's CRC does not hold */
    TFRECORD_TOO_LARGE,  /* the length is over the limit */
} tfrecord_fault;

/* Where a scan or walk stands; `offset` says where it starts and is moved past each good frame. */
typedef struct {
    size_t offset;
    size_t count;         /* frames found by this call */
    tfrecord_fault fault; /* why the frame at `offset` is refused */
    /* Without a fault, bytes that the frame at `offset` takes, as far as known: TFRECORD_HEADER while
     * its header is cut, 0 at the end of the data or when `capacity` stopped the call. With
     * TFRECORD_TOO_LARGE the claimed length. */
    uint64_t need;
    /* What `tfrecord_scan` makes of the records' checksums: CRC32C over the 4 bytes behind the data
     * of each record, its masked CRC. It goes on from the records before. */
    uint32_t sum;
} tfrecord_cursor;

/* Frame `count` records one after the other at `frame`, which has room for their sizes and
 * TFRECORD_OVERHEAD each. Returns the end. */
uint8_t *tfrecord_put(uint8_t *frame, const uint8_t *const *records, const size_t *sizes,
                      size_t count);

/* Find up to `capacity` whole records and where their data lies: offsets[i], lengths[i].
 * cursor->sum is that of the records before, and becomes that of all. */
void tfrecord_scan(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                   bool verify, int64_t *offsets, int64_t *lengths, size_t capacity);

/* Find up to `capacity` frames by their headers alone. The last frame may reach past the data:
 * cursor->offset then says where the next header lies. */
void tfrecord_walk(tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
                   int64_t *frames, size_t capacity);

/* Records up to so long are always looked at by tfrecord_find. */
#define TFRECORD_SHORT ((uint64_t)4096)

/* The first offset from `start` at which a whole, good frame lies (*found is true), or which more
 * bytes could still turn into one, or `size`. With `final`, no more bytes come.
 *
 * A hostile file may have a header each 12 bytes whose data reach to its end, and the CRC of each is as
 * much work as the file is long. *patience is how many bytes of frames that turn out bad may be
 * looked at; what is left comes back. Without any, frames longer than TFRECORD_SHORT are passed over. */
size_t tfrecord_find(const uint8_t *data, size_t size, size_t start, uint64_t limit, bool final,
                     uint64_t *patience, bool *found);

#endif
