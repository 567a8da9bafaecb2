/* A part of a tensor of records: one chunk, and where the wanted records lie in it. */
#ifndef TFIO_STORE_TF_PART_H
#define TFIO_STORE_TF_PART_H

#include "tensorflow/ops/chunk.h"

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

#endif
