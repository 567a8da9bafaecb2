/* TensorFlow ops that turn files into string tensors of records. No Python.h.
 *
 *   TfioStoreReadBlocks   runs of records of known blocks: any block, any process, any order
 *   TfioStoreBeginBlocks  has the same blocks fetched, and answers at once
 *   TfioStoreReadStream   the next records of a file of which no blocks are known
 *   TfioStoreRaise        fails with an error that an earlier op put into a string
 *
 * All are stateless functions of their inputs, so that tf.data can checkpoint and ship what is made
 * of them. Raw local files are read here, without the GIL; for all else the `tf_lender` of the
 * module (Python) fetches and decompresses.
 */
#ifndef TFIO_STORE_TF_KERNELS_H
#define TFIO_STORE_TF_KERNELS_H

#include "tf_part.h"

/* How to reach and to treat the files of a dataset: the ops' attributes. */
typedef struct {
    char *options; /* JSON: storage options and the like, for Python's eyes */
    bool verify;
    bool skip_corrupt;
    bool partial; /* good records before damage are handed out, and the damage beside them */
    uint64_t limit;
} read_settings;

typedef struct {
    const char *url;
    const char *codec;
    int64_t start, stop;         /* stored bytes */
    int64_t raw_start, raw_stop; /* the same in the uncompressed stream */
    int64_t records;
    int64_t take; /* how many of them are wanted this time */
} block_request;

/* Python's side. All may be called by any thread, without the GIL. */
typedef struct {
    /* Begins to fetch the block, so that read_block need not wait long. Its failure is read_block's. */
    void (*begin_block)(const block_request *block, const read_settings *settings);
    /* The block's uncompressed bytes; with skip_corrupt, found->table too, of all its good records. */
    bool (*read_block)(const block_request *block, const read_settings *settings, part *found,
                       failure *why);
    /* The next records from `position` on; `next` is the position behind them. No records and no
     * failure: the stream has ended. A position is (records, offset): how many records lie before
     * it, and at which byte of a raw stream it is, or -1 where the stream is compressed. */
    bool (*read_stream)(const char *url, const char *codec, const int64_t position[2],
                        const read_settings *settings, part *found, int64_t next[2],
                        failure *why);
} tf_lender;

extern tf_lender lender;

/* Registers ops and kernels with TensorFlow, which keeps them for the life of the process. NULL on
 * success, or what went wrong. Needs tf_abi_load. */
const char *tf_kernels_register(void);

#endif
