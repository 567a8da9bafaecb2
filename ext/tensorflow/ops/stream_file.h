/* Reading one file from a position on: what TfioStoreReadStream does with each of its files. */
#ifndef TFIO_STORE_TF_STREAM_FILE_H
#define TFIO_STORE_TF_STREAM_FILE_H

#include "tensorflow/ops/lender.h"
#include "tensorflow/ops/request.h"

#ifndef STREAM_CHUNK /* fuzzing builds this with a small one */
#define STREAM_CHUNK ((uint64_t)1 << 20)
#endif

/* A file, and where in it reading stands. */
typedef struct {
    char url[MAX_NAME], codec[MAX_CODEC]; /* the codec may be "auto" */
    char version[MAX_VERSION]; /* which is read; "": any, and then the one that is found */
    int64_t position[2]; /* records before it, and its byte offset, or -1 where nobody knows one */
    bool ended;
    bool waits; /* the next records are on their way: ask again */
} stream;

/* Reads the next records, about STREAM_CHUNK of them, and moves behind them. False for a failure: the
 * stream then stands behind part->count good records, where reading meets the failure again. */
bool stream_next(stream *from, const read_settings *settings, record_part *found, failure *why);

/* Whether TensorFlow's own reader gives the file's records too: it is local, and begins as a raw or a GZIP
 * file does. `plain` is then what TensorFlow takes as its compression. The codec may be "auto". */
bool stream_plain(const char *url, const char *codec, char plain[MAX_CODEC]);

#endif
