/* Blocks whose records are picked one by one, in an order that has nothing to do with theirs: each block
 * is read when the first of its records is picked, and each record goes when it was.
 *
 * What is held at a time are the records that wait in a shuffle, and little more. Long records (from
 * HELD_APART bytes on) get memory of their own, and the block goes at once; of short ones the block's
 * bytes are kept, and moved together when half of them have gone.
 *
 * Only ever a cache: a record that is not there any more is read again.
 */
#ifndef TFIO_STORE_TF_HELD_H
#define TFIO_STORE_TF_HELD_H

#include "tensorflow/ops/order.h"
#include "tensorflow/ops/runs.h"

enum { HELD_APART = 1024, MAX_EPOCHS = 4 };

typedef struct held_epochs held_epochs;

/* NULL when out of memory. */
held_epochs *held_new(void);

/* No call may hold records. NULL is none. */
void held_delete(held_epochs *all);

/* Records that a call has picked, until it gives them back. */
typedef struct held_picks held_picks;

/* The records, held until `held_give`. NULL, with now->why: one of them could not be had. `epoch`: no
 * record is picked twice in one of these. */
held_picks *held_take(held_epochs *all, kernel_call *now, const blocks_request *asked,
                      const read_settings *settings, int64_t epoch, const int64_t *picks,
                      size_t count);

/* Their bytes, in the order in which they were picked. */
const ex_bytes *held_records(const held_picks *taken);

void held_give(held_picks *taken);

#endif
