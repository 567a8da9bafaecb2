/* Python's side of the ops: fetches and decompresses what is not a raw local file. All of it may be
 * called by any thread, without the GIL.
 *
 * TensorFlow can't interrupt a call of an op. Who drops an iterator waits until the call that runs has
 * ended, perhaps in the middle of a garbage collection. So no call waits for a store: what has not come
 * in a moment is asked for again, by another call. */
#ifndef TFIO_STORE_OP_PYTHON_H
#define TFIO_STORE_OP_PYTHON_H

#include "tensorflow/ops/op_records.h"

typedef struct {
    char *options; /* JSON: storage options and the like, for Python's eyes */
    bool verify;
    bool skip_corrupt;
    bool partial; /* good records before damage are handed out, and the damage beside them */
    uint64_t max_record_bytes;
} op_settings;

enum { MAX_VERSION = 1024 };

typedef struct {
    const char *url;
    const char *codec;
    const char *version;         /* which these must be bytes of; "": nobody knows */
    int64_t start, stop;         /* stored bytes */
    int64_t raw_start, raw_stop; /* the same in the uncompressed stream */
    int64_t records;
    op_sums sums;
    int64_t file_blocks; /* with skip_corrupt: how many blocks the file has */
} op_block;

typedef struct {
    /* Begins to fetch and decompress the block. The answer is for read_block or drop_fetch, once.
     * NULL: it could not be begun, and read_block will tell why. */
    void *(*begin_block)(const op_block *block, const op_settings *settings);
    void (*drop_fetch)(void *fetch);
    /* Waits a moment for what begin_block has begun. False: it is still on its way. */
    bool (*await_fetch)(void *fetch);
    /* The block's uncompressed bytes; with skip_corrupt, found->table too, of all its good records.
     * `fetch` may be NULL. */
    bool (*read_block)(const op_block *block, const op_settings *settings, void *fetch,
                       op_part *found, failure *why);
    /* The next records from `position` on; `next` is the position behind them. No records and no
     * failure: the stream has ended, or `*waits` says that they are still on their way. A position is (records, offset): how many records lie before
     * it, and at which byte of a raw stream it is, or -1 where the stream is compressed. `version`,
     * of MAX_VERSION bytes, is which the records must be of; "" becomes the one that is found. */
    bool (*read_stream)(const char *url, const char *codec, char *version,
                        const int64_t position[2], const op_settings *settings, op_part *found,
                        int64_t next[2], bool *waits, failure *why);
    /* A new iterator does not go on with what an earlier one waits for, where nobody knows the version. */
    void (*forget_steps)(void);
    /* What the `stored` bytes of a whole file inflate to, if that is at most `limit` bytes and nothing is
     * wrong with them; false else. The codec may be "auto". */
    bool (*inflate)(const char *codec, const op_chunk *stored, size_t limit, op_chunk *raw);
    /* Whether a local shard is as long as the manifest beside it says, if that says anything. */
    bool (*is_whole)(const char *path);
} op_python_functions;

extern op_python_functions op_python; /* set by the module */

/* Whether the ops read the file themselves. */
static inline bool op_is_raw_local(const char *url, const char *codec,
                                   const op_settings *settings) {
    return codec[0] == '\0' && !settings->skip_corrupt && op_local_path(url) != NULL;
}

#endif
