#include "tf_records.h"

#include <stdlib.h>

typedef struct {
    const char *bytes;
    size_t size;
} record;

struct record_list {
    size_t count, capacity;
    record records[];
};

record_list *records_new(size_t records, failure *why) {
    bool possible = records <= SIZE_MAX / 2 / sizeof(record);
    record_list *list = possible ? malloc(sizeof *list + records * sizeof(record)) : NULL;
    if (list == NULL) {
        fail(why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for %zu records", records);
        return NULL;
    }
    list->count = 0;
    list->capacity = records;
    return list;
}

bool records_add(record_list *list, const part *found, failure *why) {
    if (found->count > list->capacity - list->count)
        return fail(why, TF_INTERNAL, "more records came than were announced");
    const char *bytes = (const char *)found->bytes.data;
    for (size_t i = 0; i < found->count; i++)
        list->records[list->count++] =
            (record){bytes + found->offsets[i], (size_t)found->lengths[i]};
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
        record moved = list->records[left - 1];
        list->records[left - 1] = list->records[other];
        list->records[other] = moved;
    }
}

size_t records_count(const record_list *list) {
    return list->count;
}

void records_copy(const record_list *list, TF_TString *strings) {
    for (size_t i = 0; i < list->count; i++)
        tf.StringCopy(&strings[i], list->records[i].bytes, list->records[i].size);
}

void records_delete(record_list *list) {
    free(list);
}
