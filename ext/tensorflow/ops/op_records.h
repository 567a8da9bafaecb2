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
    void *lender; /* what `op_return_lent` needs; NULL when the bytes are ours */
} op_chunk;

/* Gives lent bytes back to Python; set by the module. */
extern void (*op_return_lent)(void *lender);

/* Room for `size` bytes of the pool. */
bool op_chunk_take(op_chunk *bytes, size_t size, failure *why);

/* Gives the bytes back, whoever they belong to. Idempotent. */
void op_chunk_release(op_chunk *bytes);

/* A URL without a scheme, or file:///…: the path to open. NULL for everything else. */
const char *op_local_path(const char *url);

enum { LOCAL_VERSION = 64 };

/* A local file open for reading, how large it is, and which version of it this is. */
typedef struct {
    const char *url;
    int descriptor;
    uint64_t size;
    char version[LOCAL_VERSION]; /* the etag that tfio_store/storage/local.py gives it */
} op_file;

/* Fails with FAILED_PRECONDITION if the file is no longer the one of `version`; "" takes any. */
bool op_file_open(op_file *file, const char *url, const char *version, failure *why);

/* Fails with FAILED_PRECONDITION if anybody has written into it since. */
bool op_file_unchanged(const op_file *file, failure *why);

void op_file_close(op_file *file);

/* Reads bytes [start, stop) into a chunk of the pool; fewer only where the file ended when it was
 * opened. */
bool op_file_read(const op_file *file, uint64_t start, uint64_t stop, op_chunk *bytes,
                  failure *why);

/* --- a part: records in one chunk ------------------------------------------------------------- */

/* A part of a tensor of records: one chunk, and where the wanted records lie in it. */

/* What the index tells of a block's records: `sum` of a cursor before them, and behind them. */
typedef struct {
    int64_t before, behind; /* negative: nobody knows */
} op_sums;

typedef struct {
    op_chunk bytes;
    op_chunk table; /* holds offsets and lengths; empty while nothing was looked for */
    int64_t *offsets;
    int64_t *lengths;
    size_t count;
    size_t end; /* where in `bytes` the first byte behind the last record lies */
} op_part;

/* What is said of damage: by its tfrecord_fault, and in the place of TFRECORD_OK that the data end inside a
 * record. The module sets them to the texts of `tfio_store.errors.Reason`. */
enum { OP_REASONS = 3 };
extern const char *op_reasons[OP_REASONS];

/* What is looked for, and what to call it when it is damaged. */
typedef struct {
    const char *url;
    int64_t base; /* offset of the chunk's first byte in the uncompressed stream */
    size_t skip;  /* records to pass by, by their headers alone */
    size_t take;  /* records wanted at most */
    bool whole;   /* the chunk holds nothing but whole records: an incomplete one is damage */
    bool verify;
    uint64_t max_record_bytes;
    size_t size;  /* bytes of all these records; 0: nobody knows */
    bool indexed; /* an index tells where these bytes end, and that a record ends there */
    op_sums sums; /* if all records from the block's first to its last are passed by or wanted */
} op_search;

/* Finds records in part->bytes. False for damage: part->count good ones lie before it. */
bool op_part_search(op_part *found, const op_search *wanted, failure *why);

void op_part_release(op_part *found);

/* --- lists of records ------------------------------------------------------------------------- */

/* Where records lie, on their way to be a string tensor. Their bytes must stay until they are copied.
 *
 * Strings that point into what was read would spare the copy, and are not safe: TensorFlow slices
 * tensors without copying, and moves strings out of a slice that is the last to hold its tensor, to
 * free them one by one. */

typedef struct op_records op_records;

/* Room for so many records. NULL when out of memory. */
op_records *op_records_new(size_t records, failure *why);

/* Appends a part's records; false if there is no room for them. */
bool op_records_add(op_records *list, const op_part *found, failure *why);

/* Appends one; likewise. */
bool op_records_put(op_records *list, ex_bytes record);

/* Puts the records into an order that the seed alone decides. */
void op_records_shuffle(op_records *list, uint64_t seed);

size_t op_records_count(const op_records *list);

const ex_bytes *op_records_all(const op_records *list);

/* Records are met in any order: so many before its turn, a record is called into the cache. */
enum { STRINGS_AHEAD = 8 };

/* Copies to as many strings, which are initialised: a part's records … */
void op_part_copy(const op_part *found, TF_TString *strings);
/* … or any. */
void op_strings_copy(const ex_bytes *bytes, size_t count, TF_TString *strings);

/* NULL is no list. */
void op_records_delete(op_records *list);

#endif
