/* A window: the records of a group of spans, read by all the calls that want some of them.
 *
 * Each call that comes reads the next span that nobody has begun; whoever reads the last one puts the
 * records into their order. So the blocks of a window are read by as many threads as there are
 * calls, and none waits while there is something to read.
 */
#ifndef TFIO_STORE_OP_WINDOW_H
#define TFIO_STORE_OP_WINDOW_H

#include "tensorflow/ops/op_blocks.h"

typedef struct op_window op_window;

/* The window of a group, of which nothing is read. NULL: the group makes no sense, or no memory. */
op_window *op_window_new(op_call *call, const op_request *asked, int64_t group);

/* Reads what nobody has read yet, and waits for the rest. With `seed` the records are shuffled. */
void op_window_read(op_window *of, op_call *call, const op_request *asked, const uint64_t *seed);

/* Records that its spans announce. */
int64_t op_window_expected(const op_window *of);

/* Once it is read: the records as far as they are good, NULL if there was no memory … */
const op_records *op_window_records(const op_window *of);
/* … and what is wrong behind them (TF_OK: nothing). */
const failure *op_window_damage(const op_window *of);

/* Where a record of it lies: a span of the request, and the offset in the uncompressed stream. */
bool op_window_place(const op_window *of, op_call *call, const op_request *asked,
                     const uint8_t *record, const op_span **span, int64_t *offset);

/* NULL is no window. */
void op_window_delete(op_window *of);

/* --- the windows of a kernel ------------------------------------------------------------------ */

/* The windows that the calls of one kernel are at.
 *
 * Only ever a cache: a window that is not found is read again. At most MAX_WINDOWS are kept; each goes
 * when all its records were taken, and all when the kernel does.
 */

enum { MAX_WINDOWS = 4 };

typedef struct op_windows op_windows;
typedef struct op_shared_window op_shared_window;

/* NULL when out of memory. */
op_windows *op_windows_new(void);

/* No call may hold a window. NULL is no windows. */
void op_windows_delete(op_windows *all);

/* The window of a group shuffled by `seed`, held until `op_windows_give`; `taking` of its records are used
 * up by this. NULL: it could not be had. */
op_shared_window *op_windows_take(op_windows *all, op_call *call, const op_request *asked,
                                  int64_t group, uint64_t seed, int64_t taking);
void op_windows_give(op_windows *all, op_shared_window *held);

op_window *op_windows_window(op_shared_window *held);

/* What a call wants that wants a batch of a shuffled window: a row of TfioStoreWindowRows. */
enum { WANTED_GROUP, WANTED_BATCH, WANTED_SEED, WANTED_COUNT };

#endif
