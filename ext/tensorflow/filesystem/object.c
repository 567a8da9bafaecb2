#define _POSIX_C_SOURCE 200809L /* strdup */

#include "tensorflow/filesystem/object.h"

#include <stdlib.h>
#include <string.h>

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

void fs_object_unref(fs_object *object) {
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

fs_object *fs_object_get(const char *key, uint64_t size) {
    fs_object *found = key ? object_find(key, size) : NULL;
    return found ? found : object_new(key, size);
}
