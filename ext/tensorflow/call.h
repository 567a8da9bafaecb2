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

/* Inputs. A graph may come from anywhere, with tensors of any shape. So an op takes each by one of these,
 * once it is about to use it, and looks at `inputs` in no other way. They check the element type, the rank
 * and every dimension, and then answer how far the elements go. False: now->why names the input. What an
 * element means is the op's to check: numbers that say where something lies, and how much of it. */

/* Rows of an int64 matrix [n, columns], or where columns is 1 the elements of a vector or scalar. */
bool input_rows(kernel_call *now, int input, int64_t columns, const int64_t **rows, int64_t *n);

/* So many numbers: an int64 vector [count], or where that is 1 a scalar. */
bool input_numbers(kernel_call *now, int input, int64_t count, const int64_t **numbers);

/* At most one number, an int64 vector or scalar. NULL: it has none. */
bool input_option(kernel_call *now, int input, const int64_t **number);

/* The bytes of a vector of uint8. */
bool input_bytes(kernel_call *now, int input, ex_bytes *bytes);

/* The elements of a vector or scalar of strings. */
bool input_strings(kernel_call *now, int input, const TF_TString **strings, int64_t *n);

/* One of them, with a final NUL, in `text`. */
bool input_text(kernel_call *now, int input, int64_t index, char *text, size_t size);

/* What an input looks like, before it is taken: the columns that `input_rows` may be asked for. */
int64_t input_columns(const kernel_call *now, int input);
bool input_is_scalar(const kernel_call *now, int input);

/* Adds to a sum of what inputs claim; neither is negative. False: there is no such number. */
bool add_claim(kernel_call *now, int64_t *sum, int64_t more);

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
 * the op was declared without it, or with another type. */
void *output_tensor(kernel_call *now, int index, TF_DataType type, const int64_t *dims, int rank);

/* Bytes of one value. */
size_t type_size(TF_DataType type);

#endif
