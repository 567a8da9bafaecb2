/* The decoding of one batch under way. */
#ifndef TFIO_STORE_TF_DECODING_H
#define TFIO_STORE_TF_DECODING_H

#include "tensorflow/ops/fault.h"
#include "tensorflow/ops/tiles.h"

/* What decoding goes by. */
typedef struct {
    kernel_call *now;
    const column_list *wanted;
    tiles tiles;
    void **values;    /* of each FIXED column: its output */
    int64_t **counts; /* of each other: values or steps of each record, and one place more */
    chunk scratch;
    decode_fault *fault;
} batch_decoding;

/* Sets the fault of a tile's row; answers false. */
bool decoding_fail(batch_decoding *all, size_t k, size_t start, size_t row, ex_status status);

/* Whether `nbytes` of records can hold what a column wants in so many rows. Where they can't, some row is
 * at fault. */
bool decoding_fits(const wanted_column *each, size_t rows, size_t nbytes);

/* Counts to where each row's values begin; the last is how many there are. */
int64_t decoding_splits(int64_t *counts, size_t rows, int64_t *most);

#endif
