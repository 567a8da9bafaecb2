/* Kernels: one call of one, with its inputs, its outputs and how it went; its attributes; and all that
 * there are. */
#ifndef TFIO_STORE_OP_CALL_H
#define TFIO_STORE_OP_CALL_H

#include "tensorflow/ops/op_python.h"

enum { MAX_INPUTS = 9 };

typedef struct {
    TF_OpKernelContext *context;
    TF_Status *status;
    TF_Tensor *inputs[MAX_INPUTS];
    failure why;
} op_call;

bool op_call_begin(op_call *call, TF_OpKernelContext *context, int inputs);

/* Tells TensorFlow if anything failed. */
void op_call_end(op_call *call);

/* Inputs. A graph may come from anywhere, with tensors of any shape. So an op takes each by one of these,
 * once it is about to use it, and looks at `inputs` in no other way. They check the element type, the rank
 * and every dimension, and then answer how far the elements go. False: call->why names the input. What an
 * element means is the op's to check: numbers that say where something lies, and how much of it. */

/* Rows of an int64 matrix [n, columns], or where columns is 1 the elements of a vector or scalar. */
bool op_input_rows(op_call *call, int input, int64_t columns, const int64_t **rows, int64_t *n);

/* So many numbers: an int64 vector [count], or where that is 1 a scalar. */
bool op_input_numbers(op_call *call, int input, int64_t count, const int64_t **numbers);

/* At most one number, an int64 vector or scalar. NULL: it has none. */
bool op_input_option(op_call *call, int input, const int64_t **number);

/* The bytes of a vector of uint8. */
bool op_input_bytes(op_call *call, int input, ex_bytes *bytes);

/* The elements of a vector or scalar of strings. */
bool op_input_strings(op_call *call, int input, const TF_TString **strings, int64_t *n);

/* One of them, with a final NUL, in `text`. */
bool op_input_text(op_call *call, int input, int64_t index, char *text, size_t size);

/* What an input looks like, before it is taken: the columns that `op_input_rows` may be asked for. */
int64_t op_input_columns(const op_call *call, int input);
bool op_input_is_scalar(const op_call *call, int input);

/* Adds to a sum of what inputs claim; neither is negative. False: there is no such number. */
bool op_add_claim(op_call *call, int64_t *sum, int64_t more);

/* Output `index`: n numbers to be filled in (NULL: out of memory), or a scalar for n = -1 … */
int64_t *op_output_numbers(op_call *call, int index, int64_t n);
/* … a string scalar … */
bool op_output_text(op_call *call, int index, const char *text);
/* … what went wrong, as TfioStoreRaise reads it: "15:what happened", or nothing for TF_OK … */
bool op_output_error(op_call *call, int index, const failure *why);
/* … or copies of bytes, or of records, string [count]. */
bool op_output_strings(op_call *call, int index, const ex_bytes *bytes, size_t count);
bool op_output_records(op_call *call, int index, const op_records *records);

/* Output `index` of any shape, to be filled in. Strings in it are initialised. NULL: there is no room, or
 * the op was declared without it, or with another type. */
void *op_output_tensor(op_call *call, int index, TF_DataType type, const int64_t *dims, int rank);

/* Bytes of one value. */
size_t op_type_size(TF_DataType type);

/* --- attributes ------------------------------------------------------------------------------- */

/* A kernel's state, as TF_NewKernelBuilder wants it; NULL and a failed construction if they make no
 * sense. */
void *op_settings_new(TF_OpKernelConstruction *context);
void op_settings_delete(void *settings);

/* A kernel that was filled; NULL, and a failed construction, if `status` is bad. It takes both. */
void *op_kernel_made(TF_OpKernelConstruction *context, TF_Status *status, void *kernel,
                     void (*destroy)(void *kernel));

/* An attribute, NULL or 0 where `status` is or becomes bad. The text is to be freed, and ends in a NUL
 * behind its `length`. */
char *op_text_attribute(TF_OpKernelConstruction *context, const char *name, size_t *length,
                        TF_Status *status);
uint64_t op_size_attribute(TF_OpKernelConstruction *context, const char *name, TF_Status *status);

/* --- the kernels ------------------------------------------------------------------------------ */

/* TensorFlow ops that turn files into string tensors of records. No Python.h.
 *
 *   TfioStoreReadBlocks   runs of records of known blocks: any block, any process, any order
 *   TfioStoreReadExamples one batch: of the records of known blocks, shuffled and decoded as asked for
 *   TfioStoreWindowRows   the batches of a window, for TfioStoreReadExamples
 *   TfioStoreBeginEpoch   the seeds of an epoch's shuffle, and its order of the files
 *   TfioStorePickRecords  which records a batch has, in TensorFlow's own order
 *   TfioStoreReadPicked   that batch, decoded as asked for
 *   TfioStoreBeginBlocks  has the same blocks fetched, and answers at once
 *   TfioStoreAwaitBlocks  waits a moment for them, and says whether to ask again
 *   TfioStoreReadStream   the next records of files of which no blocks are known
 *   TfioStorePackStream   the same records as one tensor of bytes, a pack
 *   TfioStoreCutPack      where in a pack batches begin
 *   TfioStoreReadPack     one of these batches, decoded as asked for
 *   TfioStorePlainCodec   the codec of files that TensorFlow's own reader reads as well, or "other"
 *   TfioStoreRaise        fails with an error that an earlier op put into a string
 *
 * All are stateless functions of their inputs, so that tf.data can checkpoint and ship what is made
 * of them. Raw local files are read here, without the GIL; for all else the `lender` (Python) fetches
 * and decompresses.
 */

void op_read_blocks(void *settings, TF_OpKernelContext *context);
void *op_examples_new(TF_OpKernelConstruction *context);
void op_read_examples(void *kernel, TF_OpKernelContext *context);
void op_examples_delete(void *kernel);
void op_read_picked(void *kernel, TF_OpKernelContext *context);
void op_begin_epoch(void *kernel, TF_OpKernelContext *context);
void *op_pick_new(TF_OpKernelConstruction *context);
void op_pick_records(void *kernel, TF_OpKernelContext *context);
void op_pick_delete(void *kernel);
void op_window_rows(void *kernel, TF_OpKernelContext *context);
void op_begin_blocks(void *settings, TF_OpKernelContext *context);
void op_await_blocks(void *settings, TF_OpKernelContext *context);
void op_read_stream(void *settings, TF_OpKernelContext *context);
void op_pack_stream(void *settings, TF_OpKernelContext *context);
void op_plain_codec(void *kernel, TF_OpKernelContext *context);
void op_cut_pack(void *kernel, TF_OpKernelContext *context);
void *op_pack_new(TF_OpKernelConstruction *context);
void op_read_pack(void *kernel, TF_OpKernelContext *context);
void op_pack_delete(void *kernel);

/* Registers ops and kernels with TensorFlow, which keeps them for the life of the process. NULL on
 * success, or what went wrong. Needs tf_abi_load. */
const char *op_kernels_register(void);

#endif
