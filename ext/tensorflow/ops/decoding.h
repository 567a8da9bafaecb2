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
    int64_t **counts; /* of each other: values of each record, and one place more */
    chunk scratch;
    decode_fault *fault;
} batch_decoding;

/* Sets the fault of a tile's row; answers false. */
bool decoding_fail(batch_decoding *all, size_t k, size_t start, size_t row, ex_status status);

#endif
