/* Reused memory. A reader's chunks and a writer's blocks come and go by the megabyte. Fresh memory
 * costs a page fault for each 4 KiB: several times what scanning it costs. */
#ifndef TFIO_STORE_POOL_H
#define TFIO_STORE_POOL_H

#include <stddef.h>

/* Unused memory is kept as long as the process has no more than this of it and of used memory
 * together; and where many threads work for a reader, so much for each, a long span of a file and its
 * index, within its budget: all of them may let go of what they read at once, and want as much in the
 * next moment. While more is in use, so much is kept at least. */
#define POOL_LEAST ((size_t)32 << 20)
#define POOL_LIMIT ((size_t)64 << 20)
#define POOL_LIMIT_EACH ((size_t)18 << 20)
#define POOL_LIMIT_MOST ((size_t)288 << 20)

/* So many threads work for a reader with a budget of so many bytes. The most of all readers counts. */
void pool_serve(size_t threads, size_t budget);

/* Takes at least `size` bytes of any content; *capacity is how many. NULL if there is no memory. */
void *pool_take(size_t size, size_t *capacity);

/* Gives back memory of pool_take, with the capacity that it told. Any thread may call it. */
void pool_give(void *memory, size_t capacity);

/* Bytes now kept for reuse. */
size_t pool_kept(void);

/* Each extension module links these functions, and would have a pool of its own. The core lends its
 * pool to the others. */
typedef struct {
    void *(*take)(size_t size, size_t *capacity);
    void (*give)(void *memory, size_t capacity);
    size_t (*kept)(void);
} pool_functions;

#define POOL_CAPSULE "tfio_store.pool"

const pool_functions *pool_lend(void);

/* From here on the lent pool serves. What was taken before goes back to it too: both take it alike. */
void pool_borrow(const pool_functions *lent);

#endif
