/* Records that are picked one by one, in an order that has nothing to do with that of their blocks: a
 * block is read when the first of its records is picked, the others wait, and each goes when it was
 * picked. So no more is held than the records that wait in a shuffle.
 *
 * Only ever a cache: a record that is not there any more is read again.
 */
#ifndef TFIO_STORE_OP_HELD_H
#define TFIO_STORE_OP_HELD_H

#include "tensorflow/ops/op_blocks.h"

enum { MAX_EPOCHS = 4 };

typedef struct op_held op_held;

/* NULL when out of memory. */
op_held *op_held_new(void);

/* No call may hold records. NULL is none. */
void op_held_delete(op_held *all);

/* Records that a call has picked, until it gives them back. */
typedef struct op_held_picks op_held_picks;

/* The records, held until `op_held_give`. NULL, with call->why: one of them could not be had. No record is
 * picked twice in one `epoch`. */
op_held_picks *op_held_take(op_held *all, op_call *call, const op_request *asked, int64_t epoch,
                            const int64_t *picks, size_t count);

/* Their bytes, in the order in which they were picked. */
const ex_bytes *op_held_records(const op_held_picks *taken);

/* NULL is none. */
void op_held_give(op_held_picks *taken);

#endif
