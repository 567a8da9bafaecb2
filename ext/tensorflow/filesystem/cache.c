#define _POSIX_C_SOURCE 200809L /* strdup */

#include "tensorflow/filesystem/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/abi.h"

struct fs_range {
    fs_object *object;
    uint64_t start;
    size_t size;
    unsigned char *bytes; /* NULL in a direct range whose reader has left */
    bool block;           /* the cache's own, in object->blocks */
    bool unread;          /* a block fetched ahead that nobody has asked for yet */
    fs_state state;
    TF_Code code; /* of FS_FAILED */
    char *reason; /* likewise: malloc'ed, or NULL */
    size_t refs;  /* readers, the fetch, and the cache while it holds the block */
    pthread_cond_t arrived;
    fs_range *newer, *older; /* in `pending` or in `held` */
};

/* Lists of ranges, newest at the head. */
typedef struct {
    fs_range *newest, *oldest;
} fs_list;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fs_list pending; /* on their way */
static fs_list held;    /* ready blocks, the first to go being the oldest */
static size_t used, budget = (size_t)256 << 20, open_handles;

/* ---- objects ---- */

/* Objects of the block cache. All who open the same key find the same one in a table. All of this runs
 * under the lock. */

struct fs_object {
    char *key; /* NULL: private */
    uint64_t size;
    size_t handles; /* open files */
    size_t refs;    /* handles and ranges */
    fs_range **blocks;
    size_t block_count;
    fs_object *next; /* in its bucket of the table */
};

enum { BUCKETS = 1021 };

static fs_object *objects[BUCKETS];

static size_t bucket_of(const char *key) {
    size_t hash = 5381;
    for (; *key; key++) hash = hash * 33 ^ (unsigned char)*key;
    return hash % BUCKETS;
}

static fs_object *object_find(const char *key, uint64_t size) {
    for (fs_object *at = objects[bucket_of(key)]; at; at = at->next)
        if (at->size == size && strcmp(at->key, key) == 0) return at;
    return NULL;
}

static fs_object *object_new(const char *key, uint64_t size) {
    if (size > INT64_MAX) return NULL; /* sums of offsets would wrap */
    fs_object *object = calloc(1, sizeof *object);
    if (!object) return NULL;
    object->size = size;
    object->block_count = (size_t)(size / FS_BLOCK_BYTES + !!(size % FS_BLOCK_BYTES));
    object->blocks = calloc(object->block_count ? object->block_count : 1, sizeof(fs_range *));
    object->key = key ? strdup(key) : NULL;
    if (!object->blocks || (key && !object->key)) {
        free(object->blocks);
        free(object->key);
        free(object);
        return NULL;
    }
    if (key) {
        fs_object **bucket = &objects[bucket_of(key)];
        object->next = *bucket;
        *bucket = object;
    }
    return object;
}

/* Gives a reference back. With the last one the object goes. */
static void object_unref(fs_object *object) {
    if (--object->refs) return;
    if (object->key) {
        fs_object **at = &objects[bucket_of(object->key)];
        while (*at != object) at = &(*at)->next;
        *at = object->next;
    }
    free(object->blocks);
    free(object->key);
    free(object);
}

/* The object of this key and size; a new one if there is none, or if the key is NULL. It has no
 * reference yet. NULL if there is no memory, or if the size is over INT64_MAX. */
static fs_object *object_get(const char *key, uint64_t size) {
    fs_object *found = key ? object_find(key, size) : NULL;
    return found ? found : object_new(key, size);
}

/* ---- lists; all that follows until the public functions runs under the lock ---- */

static void list_add(fs_list *list, fs_range *range) {
    range->newer = NULL;
    range->older = list->newest;
    *(range->older ? &range->older->newer : &list->oldest) = range;
    list->newest = range;
}

static void list_add_oldest(fs_list *list, fs_range *range) {
    range->older = NULL;
    range->newer = list->oldest;
    *(range->newer ? &range->newer->older : &list->newest) = range;
    list->oldest = range;
}

static void list_remove(fs_list *list, fs_range *range) {
    *(range->newer ? &range->newer->older : &list->newest) = range->older;
    *(range->older ? &range->older->newer : &list->oldest) = range->newer;
    range->newer = range->older = NULL;
}

/* ---- ranges ---- */

static size_t block_index(const fs_range *range) { return (size_t)(range->start / FS_BLOCK_BYTES); }

static fs_range *block_at(const fs_object *object, uint64_t index) {
    return index < object->block_count ? object->blocks[index] : NULL;
}

/* The part of the budget that a block takes. Small objects cost their bookkeeping too. */
static size_t cost_of(size_t size) { return size + sizeof(fs_range); }

static fs_range *range_new(fs_object *object, uint64_t start, size_t size, size_t refs) {
    fs_range *range = calloc(1, sizeof *range);
    if (!range) return NULL;
    *range = (fs_range){.object = object, .start = start, .size = size, .refs = refs};
    pthread_cond_init(&range->arrived, NULL);
    object->refs++;
    list_add(&pending, range);
    return range;
}

static void range_unref(fs_range *range) {
    if (--range->refs) return;
    if (range->block) free(range->bytes);
    free(range->reason);
    pthread_cond_destroy(&range->arrived);
    object_unref(range->object);
    free(range);
}

/* The cache lets go of a block. Whoever still reads it keeps it alive. */
static void block_forget(fs_range *block) {
    block->object->blocks[block_index(block)] = NULL;
    used -= cost_of(block->size);
    range_unref(block);
}

static void block_evict(fs_range *block) {
    list_remove(&held, block);
    block_forget(block);
}

static bool make_room(size_t need, bool ahead) {
    for (fs_range *at = held.oldest, *newer; at && used + need > budget; at = newer) {
        newer = at->newer;
        if (at->refs == 1 && !(ahead && at->unread)) block_evict(at);
    }
    return !ahead || used + need <= budget;
}

static fs_range *block_new(fs_object *object, size_t index, bool ahead) {
    const uint64_t start = index * FS_BLOCK_BYTES;
    const uint64_t left = object->size - start;
    const size_t size = (size_t)(left < FS_BLOCK_BYTES ? left : FS_BLOCK_BYTES);
    if (!make_room(cost_of(size), ahead)) return NULL;
    unsigned char *bytes = malloc(size);
    fs_range *block = bytes ? range_new(object, start, size, 3) : NULL; /* caller, fetch, cache */
    if (!block) {
        free(bytes);
        return NULL;
    }
    block->bytes = bytes;
    block->block = true;
    block->unread = ahead;
    object->blocks[index] = block;
    used += cost_of(size);
    return block;
}

/* A range is no longer on its way. Those who wait for it wake up. */
static void range_settle(fs_range *range, fs_state state) {
    list_remove(&pending, range);
    range->state = state;
    pthread_cond_broadcast(&range->arrived);
    if (!range->block) return;
    const bool wanted = range->object->key || range->object->handles;
    if (state == FS_READY && wanted)
        list_add(&held, range);
    else
        block_forget(range);
}

static void range_settle_failed(fs_range *range, TF_Code code, const char *reason) {
    range->code = code;
    range->reason = strdup(reason);
    range_settle(range, FS_FAILED);
}

/* The last file of an object is closed. What was fetched ahead may go. If no other file can share
 * it, it must go. */
static void object_idle(fs_object *object) {
    for (size_t i = 0; i < object->block_count; i++) {
        fs_range *block = object->blocks[i];
        if (!block) continue;
        block->unread = false;
        if (!object->key && block->state == FS_READY) block_evict(block);
    }
}

/* ---- the public functions ---- */

fs_object *fs_object_open(const char *key, uint64_t size) {
    pthread_mutex_lock(&lock);
    fs_object *object = object_get(key, size);
    if (object) {
        object->handles++;
        object->refs++;
        open_handles++;
    }
    pthread_mutex_unlock(&lock);
    return object;
}

fs_object *fs_object_hold(fs_object *object) {
    pthread_mutex_lock(&lock);
    object->refs++;
    pthread_mutex_unlock(&lock);
    return object;
}

void fs_object_release(fs_object *object) {
    pthread_mutex_lock(&lock);
    object_unref(object);
    pthread_mutex_unlock(&lock);
}

void fs_object_close(fs_object *object) {
    pthread_mutex_lock(&lock);
    open_handles--;
    if (--object->handles == 0) object_idle(object);
    object_unref(object);
    pthread_mutex_unlock(&lock);
}

uint64_t fs_object_size(const fs_object *object) { return object->size; }

fs_range *fs_block_claim(fs_object *object, uint64_t index, bool ahead, bool *mine) {
    pthread_mutex_lock(&lock);
    fs_range *block = block_at(object, index);
    *mine = !block;
    if (!block && index < object->block_count) {
        block = block_new(object, (size_t)index, ahead);
    } else if (!block || ahead) {
        block = NULL;
    } else {
        block->refs++;
        block->unread = false;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

fs_range *fs_block_find(fs_object *object, uint64_t index) {
    pthread_mutex_lock(&lock);
    fs_range *block = block_at(object, index);
    if (block) {
        block->refs++;
        block->unread = false;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

fs_range *fs_direct(fs_object *object, uint64_t start, size_t size, void *destination) {
    pthread_mutex_lock(&lock);
    fs_range *range = range_new(object, start, size, 2); /* caller and fetch */
    if (range) range->bytes = destination;
    pthread_mutex_unlock(&lock);
    return range;
}

uint64_t fs_range_start(const fs_range *range) { return range->start; }

size_t fs_range_size(const fs_range *range) { return range->size; }

void fs_range_fill(fs_range *range, const void *bytes, size_t size) {
    pthread_mutex_lock(&lock);
    if (range->state == FS_PENDING && range->bytes && size == range->size) {
        range->state = FS_COPYING; /* keeps the reader from leaving while its buffer is written */
        pthread_mutex_unlock(&lock);
        memcpy(range->bytes, bytes, size);
        pthread_mutex_lock(&lock);
        range_settle(range, FS_READY);
    } else if (range->state == FS_PENDING) {
        range_settle_failed(range, TF_FAILED_PRECONDITION,
                            "the object became shorter while it was being read; open it again");
    }
    range_unref(range);
    pthread_mutex_unlock(&lock);
}

void fs_range_fail(fs_range *range, TF_Code code, const char *reason) {
    pthread_mutex_lock(&lock);
    if (range->state == FS_PENDING) range_settle_failed(range, code, reason);
    range_unref(range);
    pthread_mutex_unlock(&lock);
}

bool fs_range_wait(fs_range *range, failure *error) {
    pthread_mutex_lock(&lock);
    while (range->state == FS_PENDING || range->state == FS_COPYING)
        pthread_cond_wait(&range->arrived, &lock);
    const bool ready = range->state == FS_READY;
    if (!ready) fail(error, range->code, "%s", range->reason ? range->reason : "");
    pthread_mutex_unlock(&lock);
    return ready;
}

void fs_range_copy(const fs_range *range, size_t skip, void *destination, size_t size) {
    memcpy(destination, range->bytes + skip, size);
}

void fs_range_release(fs_range *range, bool used_up) {
    pthread_mutex_lock(&lock);
    while (!range->block && range->state == FS_COPYING) pthread_cond_wait(&range->arrived, &lock);
    if (!range->block) {
        range->bytes = NULL;
    } else if (range->state == FS_READY && range->object->blocks[block_index(range)] == range) {
        list_remove(&held, range);
        (used_up ? list_add_oldest : list_add)(&held, range);
    }
    range_unref(range);
    pthread_mutex_unlock(&lock);
}

size_t fs_cache_used(void) {
    pthread_mutex_lock(&lock);
    const size_t bytes = used;
    pthread_mutex_unlock(&lock);
    return bytes;
}

void fs_cache_set_budget(size_t bytes) {
    pthread_mutex_lock(&lock);
    budget = bytes;
    make_room(0, false);
    pthread_mutex_unlock(&lock);
}

size_t fs_cache_share(void) {
    pthread_mutex_lock(&lock);
    const size_t bytes = budget / (open_handles + 1); /* one share for what is being read */
    pthread_mutex_unlock(&lock);
    return bytes;
}

void fs_cache_clear(void) {
    pthread_mutex_lock(&lock);
    for (fs_range *at = held.oldest, *newer; at; at = newer) {
        newer = at->newer;
        if (at->refs == 1) block_evict(at);
    }
    pthread_mutex_unlock(&lock);
}

void fs_cache_abandon(TF_Code code, const char *reason) {
    pthread_mutex_lock(&lock);
    for (fs_range *at = pending.oldest, *newer; at; at = newer) {
        newer = at->newer;
        if (at->state == FS_PENDING) range_settle_failed(at, code, reason);
    }
    pthread_mutex_unlock(&lock);
}

void fs_cache_before_fork(void) { pthread_mutex_lock(&lock); }

void fs_cache_after_fork(bool child) {
    for (fs_range *at = child ? pending.oldest : NULL, *newer; at; at = newer) {
        newer = at->newer;
        range_settle_failed(at, TF_CANCELLED, "the process was forked while this was being read");
    }
    pthread_mutex_unlock(&lock);
}
