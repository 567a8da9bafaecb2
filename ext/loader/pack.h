/* Documents of varying length in rows of one length. Plain C: no Python.h, no I/O.
 *
 * The documents of a column lie end to end, and document i has the values `splits[i] .. splits[i + 1]`.
 * A plan says which pieces of them go into which row; then the rows are copied, a few at a time. A
 * piece is a whole document, or a part of one.
 */
#ifndef TFIO_STORE_PACK_H
#define TFIO_STORE_PACK_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    PACK_OK = 0,
    PACK_NO_MEMORY,
    PACK_SPLITS, /* they do not rise from 0 to the number of values */
    PACK_PLAN,   /* a row does not hold its pieces, or a part does not hold one */
} pack_status;

/* Row r has the pieces `splits[r] .. splits[r + 1]`, in the order of the documents. Piece p has
 * `sizes[p]` values from `begins[p]` on, and at least one. */
typedef struct {
    int64_t *begins, *sizes, *splits;
    size_t pieces, rows;
} pack_plan;

/* PACK_SPLITS, before anything is allocated by them. `most`: of pieces, in rows of this length. */
pack_status pack_check(const int64_t *splits, size_t documents, int64_t values, int64_t length,
                       size_t *most);

/* Each of these fills a plan that has room for `most` pieces and for `most` + 1 splits. The splits of
 * documents were checked, and `length` is 1 or more. */

/* Each document behind the one before, cut where a row ends. Only the last row may have room left. */
void pack_concat(const int64_t *splits, size_t documents, int64_t length, pack_plan *plan);

/* Pieces of `length` of longer documents, and the others whole: the largest first, each into the
 * first row with room. Rows come in the order of their first documents. */
pack_status pack_first_fit(const int64_t *splits, size_t documents, int64_t length,
                           pack_plan *plan);

/* PACK_PLAN unless there are rows `first .. last`, which hold their pieces. */
pack_status pack_check_rows(const pack_plan *plan, size_t first, size_t last, int64_t length);

/* Whole documents of a column: its values `begin .. end`. Parts follow each other. */
typedef struct {
    const uint8_t *data;
    int64_t begin, end;
} pack_part;

/* Rows `first .. last`, which were checked, of values of `size` bytes each, into rows of `length`.
 * `padding`, a value, fills each row behind its last piece. PACK_PLAN for a piece that is not in one
 * part. */
pack_status pack_copy(const pack_plan *plan, size_t first, size_t last, const pack_part *parts,
                      size_t count, size_t size, const uint8_t *padding, int64_t length,
                      uint8_t *out);

/* The same rows: which piece of its row each value is of, from 1 on, and where in the piece it stands,
 * from 0 on. Zeros behind the last piece. `length` is below 2^31. Answers how many values there are. */
int64_t pack_mark(const pack_plan *plan, size_t first, size_t last, int64_t length,
                  int32_t *segments, int32_t *positions);

#endif
