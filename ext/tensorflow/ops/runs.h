/* Runs: the records of one span, wherever they are read from. */
#ifndef TFIO_STORE_TF_RUNS_H
#define TFIO_STORE_TF_RUNS_H

#include "tensorflow/ops/lent.h"
#include "tensorflow/ops/request.h"

/* Records that were read, and what their bytes belong to. */
typedef struct {
    record_part found;
    lent_block *lent; /* NULL: `found` owns them */
    size_t idle;      /* turns that give nothing */
} span_run;

/* Reads a span of a group that was checked. False, with now->why, leaves the good records before the damage in
 * next->found. `next` must be zero. */
bool run_read(kernel_call *now, const blocks_request *asked, const span_row *span,
              const read_settings *settings, span_run *next);

/* Idempotent. */
void run_release(span_run *done);

/* The records of lanes, a record of each in turn; lane i is runs [bounds[i], bounds[i + 1]). Where a
 * lane of `broken` (NULL: none is) has ended, all end, and *stopped is that lane. NULL: no memory. */
record_list *runs_join(const span_run *runs, const size_t *bounds, size_t lanes, const bool *broken,
                       size_t *stopped, failure *why);

#endif
