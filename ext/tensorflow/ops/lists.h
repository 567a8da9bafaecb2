/* Columns of which each record has as many values as it likes. */
#ifndef TFIO_STORE_TF_LISTS_H
#define TFIO_STORE_TF_LISTS_H

#include "tensorflow/ops/decode.h"
#include "tensorflow/ops/tiles.h"

/* What decoding goes by. */
typedef struct {
    call *now;
    const columns *wanted;
    tiles tiles;
    void **values;    /* of each FIXED column: its output */
    int64_t **counts; /* of each other: values of each record, and one place more */
    chunk scratch;
    decode_fault *fault;
} decoding;

/* Sets the fault of a tile's row; answers false. */
bool decoding_fail(decoding *all, size_t k, size_t start, size_t row, ex_status status);

/* Counts the values of column k in a tile. */
bool count_lists(decoding *all, size_t k, size_t start);

/* Makes the outputs of column k, of which all is counted. */
bool read_lists(decoding *all, size_t k);

#endif
