/* Reused memory: chunks of a reader and blocks of a writer come and go by the megabyte, and memory
 * fresh from the kernel costs a page fault per 4 KiB, several times what scanning it costs. */
#ifndef TFIO_STORE_POOL_H
#define TFIO_STORE_POOL_H

#include <stddef.h>

/* At most this much unused memory is kept in the process. */
#define POOL_LIMIT ((size_t)64 << 20)

/* At least `size` bytes, content arbitrary; *capacity is what was given. NULL when out of memory. */
void *pool_take(size_t size, size_t *capacity);

/* Gives back memory of pool_take, with the capacity it answered. Any thread may. */
void pool_give(void *memory, size_t capacity);

/* Bytes now kept for reuse. */
size_t pool_kept(void);

#endif
