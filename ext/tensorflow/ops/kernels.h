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
#ifndef TFIO_STORE_TF_KERNELS_H
#define TFIO_STORE_TF_KERNELS_H

#include "tensorflow/abi.h"

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
