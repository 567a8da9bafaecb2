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

/* --- attributes ------------------------------------------------------------------------------- */

/* How to reach and to treat the files of a dataset: the ops' attributes. */

#define SETTINGS_ATTRIBUTES                                                                        \
    "options: string = '{}'", "verify: bool = true", "skip_corrupt: bool = false",                 \
        "partial: bool = false", "max_record_bytes: int = 1073741824"

/* A kernel's state, as TF_NewKernelBuilder wants it; NULL and a failed construction if they make no
 * sense. */
void *settings_new(TF_OpKernelConstruction *context);
void settings_delete(void *settings);

/* An attribute, NULL or 0 where `status` is or becomes bad. The text is to be freed, and ends in a NUL
 * behind its `length`. */
char *text_attribute(TF_OpKernelConstruction *context, const char *name, size_t *length,
                     TF_Status *status);
uint64_t size_attribute(TF_OpKernelConstruction *context, const char *name, TF_Status *status);

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

void read_blocks(void *settings, TF_OpKernelContext *context);
void *examples_new(TF_OpKernelConstruction *context);
void read_examples(void *kernel, TF_OpKernelContext *context);
void examples_delete(void *kernel);
void read_picked(void *kernel, TF_OpKernelContext *context);
void begin_epoch(void *kernel, TF_OpKernelContext *context);
void *pick_new(TF_OpKernelConstruction *context);
void pick_records(void *kernel, TF_OpKernelContext *context);
void pick_delete(void *kernel);
void window_rows(void *kernel, TF_OpKernelContext *context);
void begin_blocks(void *settings, TF_OpKernelContext *context);
void await_blocks(void *settings, TF_OpKernelContext *context);
void read_stream(void *settings, TF_OpKernelContext *context);
void pack_stream(void *settings, TF_OpKernelContext *context);
void plain_codec(void *kernel, TF_OpKernelContext *context);
void cut_pack(void *kernel, TF_OpKernelContext *context);
void *packed_new(TF_OpKernelConstruction *context);
void read_pack(void *kernel, TF_OpKernelContext *context);
void packed_delete(void *kernel);

/* Registers ops and kernels with TensorFlow, which keeps them for the life of the process. NULL on
 * success, or what went wrong. Needs tf_abi_load. */
const char *tf_kernels_register(void);

#endif
