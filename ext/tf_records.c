#include "tf_records.h"

#include <stdlib.h>
#include <string.h>

#include "tf_string.h"
#include "tfrecord.h"

enum { ALIGNMENT = 64 }; /* of tensors: no TensorFlow asks for more */

struct record_list {
    chunk memory; /* of `strings` */
    TF_TString *strings;
    size_t count, capacity;
    size_t chunk_count, chunk_capacity;
    chunk chunks[]; /* that the strings point into */
};

record_list *records_new(size_t records, size_t parts, failure *why) {
    bool possible = records <= SIZE_MAX / 2 / sizeof(TF_TString) &&
                    parts <= SIZE_MAX / 2 / sizeof(chunk);
    record_list *list = possible ? calloc(1, sizeof *list + parts * sizeof(chunk)) : NULL;
    if (list == NULL) {
        fail(why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for %zu records", records);
        return NULL;
    }
    list->capacity = records;
    list->chunk_capacity = parts;
    if (!chunk_take(&list->memory, records * sizeof(TF_TString) + ALIGNMENT, why)) {
        free(list);
        return NULL;
    }
    uintptr_t start = (uintptr_t)list->memory.memory;
    size_t padding = (ALIGNMENT - start % ALIGNMENT) % ALIGNMENT;
    list->strings = (TF_TString *)(void *)((char *)list->memory.memory + padding);
    return list;
}

/* Bytes of a part's frames, from the first record's to the last one's. */
static size_t frames_bytes(const part *found) {
    size_t last = found->count - 1;
    int64_t bytes = found->offsets[last] + found->lengths[last] - found->offsets[0];
    return (size_t)bytes + TFRECORD_OVERHEAD;
}

/* Our own chunks hold frames: the 0 behind a record falls on its checksum, which has done its work. */
static void adopt(record_list *list, part *found) {
    char *bytes = found->bytes.memory;
    list->chunks[list->chunk_count++] = found->bytes;
    found->bytes = (chunk){0};
    for (size_t i = 0; i < found->count; i++)
        tf_string_point(&list->strings[list->count++], bytes + found->offsets[i],
                        (size_t)found->lengths[i]);
}

static bool copy(record_list *list, const part *found, failure *why) {
    chunk *kept = &list->chunks[list->chunk_count];
    size_t total = 0;
    for (size_t i = 0; i < found->count; i++)
        total += (size_t)found->lengths[i] + 1;
    if (!chunk_take(kept, total, why))
        return false;
    list->chunk_count++;
    char *bytes = kept->memory;
    for (size_t i = 0; i < found->count; i++) {
        size_t size = (size_t)found->lengths[i];
        memcpy(bytes, found->bytes.data + found->offsets[i], size);
        tf_string_point(&list->strings[list->count++], bytes, size);
        bytes += size + 1;
    }
    return true;
}

bool records_add(record_list *list, part *found, failure *why) {
    if (found->count == 0)
        return true;
    if (found->count > list->capacity - list->count || list->chunk_count == list->chunk_capacity)
        return fail(why, TF_INTERNAL, "more records came than were announced");
    if (found->bytes.memory == NULL || frames_bytes(found) < found->bytes.capacity / 2)
        return copy(list, found, why);
    adopt(list, found);
    return true;
}

/* SplitMix64 */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void records_shuffle(record_list *list, uint64_t seed) {
    /* Fisher and Yates. The top 32 bits times n, over 2^32, is a number below n. */
    for (size_t left = list->count; left > 1; left--) {
        size_t other = (size_t)((next_random(&seed) >> 32) * left >> 32);
        TF_TString moved = list->strings[left - 1];
        list->strings[left - 1] = list->strings[other];
        list->strings[other] = moved;
    }
}

size_t records_count(const record_list *list) {
    return list->count;
}

static void deallocate(void *data, size_t nbytes, void *argument) {
    (void)data, (void)nbytes;
    records_delete(argument);
}

TF_Tensor *records_tensor(record_list *list) {
    int64_t n = (int64_t)list->count;
    size_t nbytes = list->count * sizeof(TF_TString);
    return tf.NewTensor(TF_STRING, &n, 1, list->strings, nbytes, deallocate, list);
}

void records_delete(record_list *list) {
    if (list == NULL)
        return;
    for (size_t i = 0; i < list->chunk_count; i++)
        chunk_release(&list->chunks[i]);
    chunk_release(&list->memory);
    free(list);
}
