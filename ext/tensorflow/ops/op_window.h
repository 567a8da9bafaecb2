/* A window: the records of a group of spans, read by all the calls that want some of them.
 *
 * Each call that comes reads the next span that nobody has begun; whoever reads the last one puts the
 * records into their order. So the blocks of a window are read by as many threads as there are
 * calls, and none waits while there is something to read.
 */
#ifndef TFIO_STORE_OP_WINDOW_H
#define TFIO_STORE_OP_WINDOW_H

#include "tensorflow/ops/op_blocks.h"

typedef struct record_window record_window;

/* The window of a group, of which nothing is read. NULL: the group makes no sense, or no memory. */
record_window *window_new(kernel_call *now, const blocks_request *asked, int64_t group);

/* Reads what nobody has read yet, and waits for the rest. With `seed` the records are shuffled. */
void window_read(record_window *of, kernel_call *now, const blocks_request *asked,
                 const read_settings *settings, const uint64_t *seed);

/* Records that its spans announce. */
int64_t window_expected(const record_window *of);

/* Once it is read: the records as far as they are good, NULL if there was no memory … */
const record_list *window_records(const record_window *of);
/* … and what is wrong behind them (TF_OK: nothing). */
const failure *window_damage(const record_window *of);

/* Where a record of it lies: a span of the request, and the offset in the uncompressed stream. */
bool window_place(const record_window *of, kernel_call *now, const blocks_request *asked,
                  const uint8_t *record, const span_row **span, int64_t *offset);

/* NULL is no window. */
void window_delete(record_window *of);

/* --- the windows of a kernel ------------------------------------------------------------------ */

/* The windows that the calls of one kernel are at.
 *
 * Only ever a cache: a window that is not found is read again. At most MAX_WINDOWS are kept; each goes
 * when all its records were taken, and all when the kernel does.
 */

enum { MAX_WINDOWS = 4 };

typedef struct window_cache window_cache;
typedef struct shared_window shared_window;

/* NULL when out of memory. */
window_cache *windows_new(void);

/* No call may hold a window. NULL is no windows. */
void windows_delete(window_cache *all);

/* The window of a group shuffled by `seed`, held until `windows_give`; `taking` of its records are used
 * up by this. NULL: it could not be had. */
shared_window *windows_take(window_cache *all, kernel_call *now, const blocks_request *asked,
                            int64_t group, uint64_t seed, int64_t taking);
void windows_give(window_cache *all, shared_window *held);

record_window *windows_window(shared_window *held);

#endif
