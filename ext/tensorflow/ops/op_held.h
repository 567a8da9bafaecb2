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

typedef struct held_epochs held_epochs;

/* NULL when out of memory. */
held_epochs *held_new(void);

/* No call may hold records. NULL is none. */
void held_delete(held_epochs *all);

/* Records that a call has picked, until it gives them back. */
typedef struct held_picks held_picks;

/* The records, held until `held_give`. NULL, with now->why: one of them could not be had. No record is
 * picked twice in one `epoch`. */
held_picks *held_take(held_epochs *all, kernel_call *now, const blocks_request *asked,
                      const read_settings *settings, int64_t epoch, const int64_t *picks,
                      size_t count);

/* Their bytes, in the order in which they were picked. */
const ex_bytes *held_records(const held_picks *taken);

/* NULL is none. */
void held_give(held_picks *taken);

#endif
