#include "tensorflow/ops/records.h"

#include <stdlib.h>

struct record_list {
    size_t count, capacity;
    ex_bytes records[];
};

record_list *records_new(size_t records, failure *why) {
    bool possible = records <= SIZE_MAX / 2 / sizeof(ex_bytes);
    record_list *list = possible ? malloc(sizeof *list + records * sizeof(ex_bytes)) : NULL;
    if (list == NULL) {
        fail(why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for %zu records", records);
        return NULL;
    }
    list->count = 0;
    list->capacity = records;
    return list;
}

bool records_add(record_list *list, const record_part *found, failure *why) {
    if (found->count > list->capacity - list->count)
        return fail(why, TF_INTERNAL, "more records came than were announced");
    const uint8_t *bytes = found->bytes.data;
    for (size_t i = 0; i < found->count; i++)
        list->records[list->count++] =
            (ex_bytes){bytes + found->offsets[i], (size_t)found->lengths[i]};
    return true;
}

bool records_put(record_list *list, ex_bytes record) {
    if (list->count == list->capacity) return false;
    list->records[list->count++] = record;
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
        ex_bytes moved = list->records[left - 1];
        list->records[left - 1] = list->records[other];
        list->records[other] = moved;
    }
}

size_t records_count(const record_list *list) { return list->count; }

const ex_bytes *records_all(const record_list *list) { return list->records; }

void part_copy(const record_part *found, TF_TString *strings) {
    for (size_t i = 0; i < found->count; i++)
        tf.StringCopy(&strings[i], (const char *)found->bytes.data + found->offsets[i],
                      (size_t)found->lengths[i]);
}

void strings_copy(const ex_bytes *bytes, size_t count, TF_TString *strings) {
    for (size_t i = 0; i < count; i++) {
        if (i + STRINGS_AHEAD < count) __builtin_prefetch(bytes[i + STRINGS_AHEAD].data);
        tf.StringCopy(&strings[i], (const char *)bytes[i].data, bytes[i].size);
    }
}

void records_delete(record_list *list) { free(list); }
