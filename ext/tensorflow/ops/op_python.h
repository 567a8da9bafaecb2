/* What the ops ask of Python, on one page. They read raw local files by themselves. For everything else
 * they call the functions of `op_python`. _ops.pxi declares the same as this page. It hands the two
 * messages on as a BlockRequest or a StreamRequest of tfio_store/tf/dataset/options.py, and
 * tfio_store/tf/dataset/runtime.py answers them.
 *
 * Any thread may call these functions, without the GIL. TensorFlow can't interrupt a call of an op: who
 * drops an iterator waits until the call that runs has ended, perhaps in the middle of a garbage
 * collection. So no call waits for a store: what has not come in a moment is asked for again, by another
 * call. */
#ifndef TFIO_STORE_OP_PYTHON_H
#define TFIO_STORE_OP_PYTHON_H

#include "tensorflow/ops/op_records.h"

enum { MAX_NAME = 4096, MAX_CODEC = 16, MAX_VERSION = 1024 };

/* The options of TFRecordDataset that say how records are read, each named once, with its default:
 * they are attributes of all ops that read files, and fields of op_settings. */
#define READING_OPTIONS(FLAG, NUMBER)                                                              \
    FLAG(verify, true) FLAG(skip_corrupt, false) NUMBER(max_record_bytes, 1073741824)

#define FLAG_ATTRIBUTE(name, value) , #name ": bool = " #value
#define NUMBER_ATTRIBUTE(name, value) , #name ": int = " #value
#define SETTINGS_ATTRIBUTES                                                                        \
    "options: string = '{}'",                                                                      \
        "partial: bool = false" READING_OPTIONS(FLAG_ATTRIBUTE, NUMBER_ATTRIBUTE)

#define FLAG_FIELD(name, value) bool name;
#define NUMBER_FIELD(name, value) uint64_t name;

/* How files are reached and read. */
typedef struct {
    char *options; /* JSON: storage options and the like, for Python's eyes */
    bool partial;  /* good records before damage are handed out, and the damage beside them */
    READING_OPTIONS(FLAG_FIELD, NUMBER_FIELD)
} op_settings;

/* These bytes of one block. */
typedef struct {
    const op_settings *settings;
    const char *url;
    const char *codec;           /* "": none */
    const char *version;         /* of the file, which the bytes must be of; "": nobody knows it */
    int64_t start, stop;         /* bytes, as they are stored */
    int64_t raw_start, raw_stop; /* the same in the uncompressed stream */
    int64_t records;
    op_sums sums;
    int64_t file_blocks; /* how many blocks the file has */
} op_block;

/* The next records of one file: where reading stands. */
typedef struct {
    const op_settings *settings;
    char url[MAX_NAME];
    char codec[MAX_CODEC];     /* may be "auto" */
    char version[MAX_VERSION]; /* which is read; "": any, and then the one that is found */
    int64_t
        position[2]; /* records before it; its byte in a raw stream, or -1 where nobody knows one */
    bool ended;      /* there are no more */
    bool waits;      /* they are on their way: ask again */
} op_stream;

typedef struct {
    /* Begins to fetch and decompress a block. The answer is for read_block or drop_fetch, once. NULL: it
     * could not be begun, and read_block will say why. */
    void *(*begin_block)(const op_block *block);
    void (*drop_fetch)(void *fetch);
    /* Waits a moment for what begin_block has begun. False: it is still on its way. */
    bool (*await_fetch)(void *fetch);
    /* The block's uncompressed bytes; with skip_corrupt, found->table too, of all its good records.
     * `fetch` may be NULL. */
    bool (*read_block)(const op_block *block, void *fetch, op_part *found, failure *why);
    /* The next records of a stream, which then stands behind them. */
    bool (*read_stream)(op_stream *from, op_part *found, failure *why);
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
