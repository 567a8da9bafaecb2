/* The windows that the calls of one kernel are at.
 *
 * Only ever a cache: a window that is not found is read again. At most MAX_WINDOWS are kept; each goes
 * when all its records were taken, and all when the kernel does.
 */
#ifndef TFIO_STORE_TF_WINDOWS_H
#define TFIO_STORE_TF_WINDOWS_H

#include "tensorflow/ops/window.h"

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
