/* One call of a kernel: its inputs, its outputs, and how it went. */
#ifndef TFIO_STORE_TF_CALL_H
#define TFIO_STORE_TF_CALL_H

#include "tensorflow/ops/records.h"

enum { MAX_INPUTS = 9 };

typedef struct {
    TF_OpKernelContext *context;
    TF_Status *status;
    TF_Tensor *inputs[MAX_INPUTS];
    failure why;
} kernel_call;

bool call_begin(kernel_call *now, TF_OpKernelContext *context, int inputs);

/* Tells TensorFlow if anything failed. */
void call_end(kernel_call *now);

/* Rows of an int64 matrix [n, columns], or of a vector or scalar where columns is 1. */
bool input_rows(kernel_call *now, int input, int64_t columns, const int64_t **rows, int64_t *n);

/* A vector of so many numbers; a scalar is one. */
bool input_numbers(kernel_call *now, int input, int64_t count, const int64_t **numbers);

/* The bytes of a vector of uint8. */
bool input_bytes(kernel_call *now, int input, ex_bytes *bytes);

/* How many elements a vector or scalar has. */
int64_t input_count(const kernel_call *now, int input);

/* A string of a tensor, with a final NUL, in `text`. */
bool input_text(kernel_call *now, int input, int64_t index, char *text, size_t size);

/* Output `index`: n numbers to be filled in (NULL: out of memory), or a scalar for n = -1 … */
int64_t *output_numbers(kernel_call *now, int index, int64_t n);
/* … a string scalar … */
bool output_text(kernel_call *now, int index, const char *text);
/* … what went wrong, as TfioStoreRaise reads it: "15:what happened", or nothing for TF_OK … */
bool output_error(kernel_call *now, int index, const failure *why);
/* … or copies of bytes, or of records, string [count]. */
bool output_strings(kernel_call *now, int index, const ex_bytes *bytes, size_t count);
bool output_records(kernel_call *now, int index, const record_list *records);

/* Output `index` of any shape, to be filled in. Strings in it are initialised. NULL: there is no room, or
 * the op was declared with another type. */
void *output_tensor(kernel_call *now, int index, TF_DataType type, const int64_t *dims, int rank);

/* Bytes of one value. */
size_t type_size(TF_DataType type);

#endif
