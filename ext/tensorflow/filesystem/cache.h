/* The block cache under TensorFlow's files: plain C, no Python, one lock.
 *
 * An object is cut into blocks of FS_BLOCK_BYTES. A range is a stretch of an object on its way from
 * the store, or arrived: either a block, which the cache owns and all open files share, or a
 * direct one, whose bytes go straight into the buffer of the reader who asked for it. TensorFlow
 * reads in pieces from 12 bytes to 127 MiB from many threads; a hit costs a lock and a copy, and
 * neither needs the GIL.
 *
 * All blocks together stay within one budget. Read-ahead never goes over it, nor does it push out
 * what other read-ahead has fetched and nobody has read yet; a reader who waits gets a block in any
 * case.
 */
#ifndef TFIO_STORE_FS_CACHE_H
#define TFIO_STORE_FS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/failure.h"

#define FS_BLOCK_BYTES ((uint64_t)2 << 20)

typedef struct fs_object fs_object;

typedef enum { FS_PENDING, FS_COPYING, FS_READY, FS_FAILED } fs_state;

typedef struct fs_range fs_range;

/* The object of this key (its URL and version) and size, shared by all who open the same key. With
 * key NULL the store names no version: the object is its opener's alone. NULL: out of memory. */
fs_object *fs_object_open(const char *key, uint64_t size);
void fs_object_close(fs_object *object);

/* Keeps the object in being for one read, whatever happens to the file that it came from. */
fs_object *fs_object_hold(fs_object *object);
void fs_object_release(fs_object *object);

uint64_t fs_object_size(const fs_object *object);

/* Block `index` of the object, with a reference. *mine: it is new, and the caller has to see to it
 * that fs_range_fill or fs_range_fail is called for it. `ahead`: nobody waits for it; NULL when
 * it is there already or there is no room. NULL otherwise: out of memory. */
fs_range *fs_block_claim(fs_object *object, uint64_t index, bool ahead, bool *mine);

/* The block when the cache has it or is fetching it, else NULL. */
fs_range *fs_block_find(fs_object *object, uint64_t index);

/* A range that goes straight into `destination`. The caller has to have it fetched. */
fs_range *fs_direct(fs_object *object, uint64_t start, size_t size, void *destination);

uint64_t fs_range_start(const fs_range *range);
size_t fs_range_size(const fs_range *range);

/* From the fetching side, once per range: its bytes, or why there are none. */
void fs_range_fill(fs_range *range, const void *bytes, size_t size);
void fs_range_fail(fs_range *range, TF_Code code, const char *reason);

/* Waits until the range is ready (true) or has failed (false, and why in *error). */
bool fs_range_wait(fs_range *range, failure *error);

/* Copies bytes of a ready range that begin `skip` bytes into it. */
void fs_range_copy(const fs_range *range, size_t skip, void *destination, size_t size);

/* Gives the caller's reference back; a direct range writes no byte afterwards. `used_up`: a
 * sequential reader is past it, so it is the first to go. */
void fs_range_release(fs_range *range, bool used_up);

/* Bytes of blocks held, and the budget that they keep. */
size_t fs_cache_used(void);
size_t fs_cache_budget(void);
void fs_cache_set_budget(size_t bytes);

/* How many bytes of the budget one of the files now open may fill with read-ahead. */
size_t fs_cache_share(void);

/* Drops all blocks that nobody holds. */
void fs_cache_clear(void);

/* Fails all that is on its way: at exit, when nothing will arrive any more. */
void fs_cache_abandon(TF_Code code, const char *reason);

/* Around fork(): no other thread is in the cache while the process is copied, and in the child all
 * that was on its way fails, since the threads that were bringing it do not exist there. */
void fs_cache_before_fork(void);
void fs_cache_after_fork(bool child);

#endif
