/* The order of an epoch, as TensorFlow's own stages have it: which record comes next when files are read
 * in turns (Dataset.interleave) and their records shuffled (Dataset.shuffle).
 *
 * Neither stage looks at what it hands on, so the order is found without a byte of data: from the number
 * of records of each block, the epoch's order of the files, and its seeds.
 */
#ifndef TFIO_STORE_OP_ORDER_H
#define TFIO_STORE_OP_ORDER_H

#include "tensorflow/ops/op_blocks.h"

/* --- TensorFlow's random numbers -------------------------------------------------------------- */

/* The random numbers that TensorFlow's kernels draw from a seed: Philox 4x32 with 10 rounds, one 32-bit
 * number after the other (tensorflow/core/lib/random/philox_random.h, SingleSampleAdapter).
 */

typedef struct {
    uint32_t key[2], counter[4], drawn[4];
    unsigned used; /* of `drawn` */
} op_philox;

/* The generator of a pair of seeds. */
op_philox op_philox_new(uint64_t seed, uint64_t seed2);

void op_philox_refill(op_philox *of);

static inline uint32_t op_philox_next(op_philox *of) {
    if (of->used == 4) op_philox_refill(of);
    return of->drawn[of->used++];
}

/* --- the order -------------------------------------------------------------------------------- */

/* A record: its block, and its number in there. */
typedef struct {
    uint32_t block, index;
} op_pick;

/* How the records come: `cycle` files in turns, `block_length` records of each, in the order of `files`;
 * then through a shuffle with room for `buffer` of them. */
typedef struct {
    const op_block_row *table; /* sorted by file */
    const op_span *spans;      /* one for each block of the table: the records that are meant */
    int64_t blocks, table_files;
    const int64_t *files; /* of the table, in the order of this epoch */
    int64_t file_count;
    int64_t cycle, block_length, buffer;
    uint64_t seed, seed2; /* of this epoch's shuffle */
} op_order_plan;

typedef struct op_order op_order;

/* Stands before the first record. NULL, with call->why: the plan makes no sense, or no memory. */
op_order *op_order_new(op_call *call, const op_order_plan *plan);

/* The next record. False: there are no more. The plan's table and spans are as before. */
bool op_order_next(op_order *order, const op_order_plan *plan, op_pick *next);

/* Whether a record of this block was not handed out before; from now on it was. */
bool op_order_touch(op_order *order, uint32_t block);

/* From here on, no block was touched. */
void op_order_forget_touched(op_order *order);

/* NULL is no order. */
void op_order_delete(op_order *order);

#endif
