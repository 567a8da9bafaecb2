/* Packs: records on their way from one op to another, as one tensor of bytes.
 *
 * A pack is segments one after the other. Each has records of one file that follow each other there:
 *
 *   uint64  bytes of the frames
 *   uint64  records
 *   uint64  number of the first of them in its file
 *   uint64  bytes of the name
 *   name    of the file, as errors show it
 *   frames  as in a file, but for the checksums: who packs records has checked them
 *
 * Numbers are little-endian. A pack may come from a damaged checkpoint, so nothing in it is believed.
 */
#ifndef TFIO_STORE_OP_PACK_H
#define TFIO_STORE_OP_PACK_H

#include "tensorflow/ops/op_records.h"

enum { SEGMENT_HEAD = 32 };

/* A segment's head, and where its name and frames lie. */
typedef struct {
    ex_bytes name, frames;
    uint64_t records, first;
} op_segment;

/* The segment at *at, behind which *at moves. False: the pack ends there, or makes no sense. */
bool op_segment_at(ex_bytes pack, size_t *at, op_segment *found);

/* Where in a pack reading stands. */
typedef struct {
    ex_bytes pack;
    size_t segment, next; /* where the segment begins, and the one behind it */
    op_segment of;
    size_t at;       /* in its frames */
    uint64_t passed; /* records of it, since the cursor was put there */
    bool counts; /* it was put before the first of them: `passed` must come to what is claimed */
} op_cursor;

/* Stands at byte `at` of the frames of the segment at `segment`. False: there is none. */
bool op_cursor_begin(op_cursor *cursor, ex_bytes pack, size_t segment, size_t at);

/* The next record. False: the pack ends here, or makes no sense. */
bool op_cursor_next(op_cursor *cursor, ex_bytes *record);

/* Whether it stands behind the last record of the segment, and there were as many as are claimed. */
bool op_cursor_ends_segment(const op_cursor *cursor);

/* How many records begin before byte `at` of the frames. */
uint64_t op_frames_before(ex_bytes frames, size_t at);

/* How many records the pack claims to have: never more than its bytes can hold. False: it makes no
 * sense. */
bool op_pack_records(ex_bytes pack, uint64_t *records);

/* Bytes of the segment that a part makes. */
size_t op_segment_size(const op_part *part, size_t name_size);

/* Writes that segment; answers its end. `first`: the number of the part's first record in its file. */
uint8_t *op_segment_put(uint8_t *to, const op_part *part, ex_bytes name, uint64_t first);

/* Writes a segment of frames that there are; answers its end. */
uint8_t *op_segment_copy(uint8_t *to, const op_segment *segment);

#endif
