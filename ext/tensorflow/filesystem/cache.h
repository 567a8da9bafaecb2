/* The block cache under TensorFlow's files: plain C, no Python, one lock.
 *
 * An object is cut into blocks of FS_BLOCK_BYTES. A range is a stretch of an object that is on its
 * way from the store, or has arrived. There are two kinds. The cache owns a block, and all open files
 * share it. A direct range goes straight into the buffer of the reader who asked for it. TensorFlow
 * reads pieces of 12 bytes to 127 MiB from many threads. A hit costs a lock and a copy, without the
 * GIL.
 *
 * All blocks together stay within one budget. Read-ahead never goes over it. It does not push out
 * what other read-ahead has fetched and nobody has read yet. A reader who waits always gets a block.
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

/* The object of this key (its URL and version) and size. All who open the same key share it. The key
 * is NULL where the store names no version: then the object is its opener's alone. NULL if there is
 * no memory, or if the size is over INT64_MAX. */
fs_object *fs_object_open(const char *key, uint64_t size);
void fs_object_close(fs_object *object);

/* Keeps the object for one read, whatever happens to the file that it came from. */
fs_object *fs_object_hold(fs_object *object);
void fs_object_release(fs_object *object);

uint64_t fs_object_size(const fs_object *object);

/* Block `index` of the object, with a reference. *mine: the block is new, and the caller must see to
 * it that fs_range_fill or fs_range_fail is called for it. NULL if there is no memory, or no such
 * block. With `ahead` nobody waits for the block: then NULL too if it is there already, or if there
 * is no room. */
fs_range *fs_block_claim(fs_object *object, uint64_t index, bool ahead, bool *mine);

/* The block when the cache has it or is fetching it, else NULL. */
fs_range *fs_block_find(fs_object *object, uint64_t index);

/* A range that goes straight into `destination`. The caller has to have it fetched. */
fs_range *fs_direct(fs_object *object, uint64_t start, size_t size, void *destination);

uint64_t fs_range_start(const fs_range *range);
size_t fs_range_size(const fs_range *range);

/* The fetching side calls one of these once for each range: its bytes, or why there are none. */
void fs_range_fill(fs_range *range, const void *bytes, size_t size);
void fs_range_fail(fs_range *range, TF_Code code, const char *reason);

/* Waits until the range is ready (true) or has failed (false, and why in *error). */
bool fs_range_wait(fs_range *range, failure *error);

/* Copies bytes of a ready range that begin `skip` bytes into it. */
void fs_range_copy(const fs_range *range, size_t skip, void *destination, size_t size);

/* Gives the caller's reference back. A direct range writes no byte afterwards. `used_up`: a
 * sequential reader is past this range, so it is the first to go. */
void fs_range_release(fs_range *range, bool used_up);

/* Bytes of blocks held. */
size_t fs_cache_used(void);

/* The bytes that they may have. */
void fs_cache_set_budget(size_t bytes);

/* How many bytes of the budget one of the files now open may fill with read-ahead. */
size_t fs_cache_share(void);

/* Drops all blocks that nobody holds. */
void fs_cache_clear(void);

/* Fails all that is on its way. For the exit, when nothing will arrive any more. */
void fs_cache_abandon(TF_Code code, const char *reason);

/* Around fork(). No other thread is in the cache while the process is copied. In the child all that
 * was on its way fails: the threads that were bringing it do not exist there. */
void fs_cache_before_fork(void);
void fs_cache_after_fork(bool child);

#endif
