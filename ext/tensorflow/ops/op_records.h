/* Bytes that records are cut from, where the records lie in them, and lists of records. */
#ifndef TFIO_STORE_OP_RECORDS_H
#define TFIO_STORE_OP_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "example/example.h"
#include "tensorflow/failure.h"

/* --- bytes, and local files ------------------------------------------------------------------- */

/* Bytes that records are cut from: memory of the pool, or a buffer that Python lent. */

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

/* --- a part: records in one chunk ------------------------------------------------------------- */

/* A part of a tensor of records: one chunk, and where the wanted records lie in it. */

/* What the index tells of a block's records: `sum` of a cursor before them, and behind them. */
typedef struct {
    int64_t before, behind; /* negative: nobody knows */
} block_sums;

typedef struct {
    chunk bytes;
    chunk table; /* holds offsets and lengths; empty while nothing was looked for */
    int64_t *offsets;
    int64_t *lengths;
    size_t count;
    size_t end; /* where in `bytes` the first byte behind the last record lies */
} record_part;

/* What is looked for, and what to call it when it is damaged. */
typedef struct {
    const char *url;
    int64_t base; /* offset of the chunk's first byte in the uncompressed stream */
    size_t skip;  /* records to pass by, by their headers alone */
    size_t take;  /* records wanted at most */
    bool whole;   /* the chunk holds nothing but whole records: an incomplete one is damage */
    bool verify;
    uint64_t limit;  /* bytes that a record may have */
    size_t size;     /* bytes of all these records; 0: nobody knows */
    block_sums sums; /* if all records from the block's first to its last are passed by or wanted */
} record_search;

/* Finds records in part->bytes. False for damage: part->count good ones lie before it. */
bool part_search(record_part *found, const record_search *wanted, failure *why);

void part_release(record_part *found);

/* --- lists of records ------------------------------------------------------------------------- */

/* Where records lie, on their way to be a string tensor. Their bytes must stay until they are copied.
 *
 * Strings that point into what was read would spare the copy, and are not safe: TensorFlow slices
 * tensors without copying, and moves strings out of a slice that is the last to hold its tensor, to
 * free them one by one. */

typedef struct record_list record_list;

/* Room for so many records. NULL when out of memory. */
record_list *records_new(size_t records, failure *why);

/* Appends a part's records; false if there is no room for them. */
bool records_add(record_list *list, const record_part *found, failure *why);

/* Appends one; likewise. */
bool records_put(record_list *list, ex_bytes record);

/* Puts the records into an order that the seed alone decides. */
void records_shuffle(record_list *list, uint64_t seed);

size_t records_count(const record_list *list);

const ex_bytes *records_all(const record_list *list);

/* Records are met in any order: so many before its turn, a record is called into the cache. */
enum { STRINGS_AHEAD = 8 };

/* Copies to as many strings, which are initialised: a part's records … */
void part_copy(const record_part *found, TF_TString *strings);
/* … or any. */
void strings_copy(const ex_bytes *bytes, size_t count, TF_TString *strings);

/* NULL is no list. */
void records_delete(record_list *list);

#endif
