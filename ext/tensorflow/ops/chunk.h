/* Bytes that records are cut from: memory of the pool, or a buffer that Python lent. */
#ifndef TFIO_STORE_TF_CHUNK_H
#define TFIO_STORE_TF_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/failure.h"

typedef struct {
    const uint8_t *data;
    size_t size;
    void *memory; /* of the pool; NULL when the bytes are lent */
    size_t capacity;
    void *lender; /* what `chunk_return_lent` needs; NULL when the bytes are ours */
} chunk;

/* Gives lent bytes back to Python; set by the module. */
extern void (*chunk_return_lent)(void *lender);

/* Room for `size` bytes of the pool. */
bool chunk_take(chunk *bytes, size_t size, failure *why);

/* Gives the bytes back, whoever they belong to. Idempotent. */
void chunk_release(chunk *bytes);

/* A URL without a scheme, or file:///…: the path to open. NULL for everything else. */
const char *local_path(const char *url);

enum { LOCAL_VERSION = 64 };

/* A local file open for reading, how large it is, and which version of it this is. */
typedef struct {
    const char *url;
    int descriptor;
    uint64_t size;
    char version[LOCAL_VERSION]; /* the etag that tfio_store/storage/local.py gives it */
} local_file;

/* Fails with FAILED_PRECONDITION if the file is no longer the one of `version`; "" takes any. */
bool local_open(local_file *file, const char *url, const char *version, failure *why);

/* Fails with FAILED_PRECONDITION if anybody has written into it since. */
bool local_unchanged(const local_file *file, failure *why);

void local_close(local_file *file);

/* Reads bytes [start, stop) into a chunk of the pool; fewer only where the file ended when it was
 * opened. */
bool local_read(const local_file *file, uint64_t start, uint64_t stop, chunk *bytes, failure *why);

#endif
