/* Examples to the tensors that columns say. */
#ifndef TFIO_STORE_TF_DECODE_H
#define TFIO_STORE_TF_DECODE_H

#include "tensorflow/call.h"
#include "tensorflow/ops/fault.h"

/* Makes all of the op's outputs. */
bool decode_examples(kernel_call *now, const column_list *wanted, const ex_bytes *records,
                     size_t count, decode_fault *fault);

/* The same, or without columns the records as they are: string [count]. */
bool output_rows(kernel_call *now, const column_list *wanted, const ex_bytes *records, size_t count,
                 decode_fault *fault);

/* Whether the op was declared with the outputs that the columns have. */
bool check_outputs(kernel_call *now, const column_list *wanted);

#endif
