/* Objects of the block cache. All who open the same key find the same one in a table. All of this runs
 * under the cache's lock. */
#ifndef TFIO_STORE_FS_OBJECT_H
#define TFIO_STORE_FS_OBJECT_H

#include "tensorflow/filesystem/cache.h"

struct fs_object {
    char *key; /* NULL: private */
    uint64_t size;
    size_t handles; /* open files */
    size_t refs;    /* handles and ranges */
    fs_range **blocks;
    size_t block_count;
    fs_object *next; /* in its bucket of the table */
};

/* The object of this key and size; a new one if there is none, or if the key is NULL. It has no
 * reference yet. NULL if there is no memory, or if the size is over INT64_MAX. */
fs_object *fs_object_get(const char *key, uint64_t size);

/* Gives a reference back. With the last one the object goes. */
void fs_object_unref(fs_object *object);

#endif
