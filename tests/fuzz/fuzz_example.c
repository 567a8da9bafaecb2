/* Any bytes into the Example codec: every answer stays inside the input, the two ways of reading agree, and
 * what was read and written again reads the same.
 *
 * The input is one record, in memory of exactly its size, so that a byte too many is seen. Protobuf has no
 * checksums, so plain mutations reach everything; the seeds say what the messages look like.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example/example.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { KEYS = 5, MOST = 1 << 16 };

static const ex_bytes keys[KEYS] = {
    {(const uint8_t *)"", 0},
    {(const uint8_t *)"a", 1},
    {(const uint8_t *)"label", 5},
    {(const uint8_t *)"image/raw", 9},
    {(const uint8_t *)"a name over sixteen bytes", 25},
};

#define HOLD(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void inside(ex_bytes part, ex_bytes whole) {
    HOLD(part.data >= whole.data && part.size <= whole.size);
    HOLD(part.data + part.size <= whole.data + whole.size);
}

typedef struct {
    ex_kind kind;
    size_t count;
    union {
        int64_t int64s[MOST];
        float floats[MOST];
        ex_bytes strings[MOST];
    };
} values;

/* The values of a Feature by the column readers; false where they refuse it. */
static bool read(ex_bytes feature, ex_bytes record, values *out) {
    size_t failed;
    if (ex_kind_of(feature, &out->kind) || out->kind == EX_NO_KIND) return false;
    if (ex_count(feature, out->kind, &out->count)) return false;
    HOLD(out->count <= record.size && record.size <= MOST);
    int64_t splits[2] = {0, (int64_t)out->count}, count;
    ex_column column = {.slots = &feature, .records = 1, .splits = splits};
    ex_status status = ex_count_column(&column, out->kind, &count, &failed);
    HOLD(status == EX_OK && count == (int64_t)out->count);
    switch (out->kind) {
    case EX_INT64: status = ex_read_int64s(&column, out->int64s, &failed); break;
    case EX_FLOAT: status = ex_read_floats(&column, out->floats, &failed); break;
    default: status = ex_read_bytes(&column, out->strings, &failed);
    }
    /* Counting is less strict than reading, but where both accept they agree on the number. */
    HOLD(status != EX_COUNT && status != EX_KIND && status != EX_MISSING);
    for (size_t i = 0; status == EX_OK && out->kind == EX_BYTES && i < out->count; i++)
        inside(out->strings[i], record);
    return status == EX_OK;
}

static void check_dense(ex_bytes feature, const values *good) {
    static int64_t int64s[MOST];
    static float floats[MOST];
    static ex_bytes strings[MOST];
    size_t failed;
    for (size_t width = good->count ? good->count - 1 : 0; width <= good->count + 1; width++) {
        for (int nulls = 0; nulls < 2; nulls++) {
            uint8_t valid[3] = {2, 2, 2};
            ex_column column = {.slots = &feature, .records = 1, .width = width};
            bool fits = width == good->count || (nulls && good->count == 0);
            ex_status as[3];
            for (int kind = EX_BYTES; kind <= EX_INT64; kind++) {
                column.valid = nulls ? &valid[kind - 1] : NULL;
                as[kind - 1] = kind == EX_BYTES   ? ex_read_bytes(&column, strings, &failed)
                               : kind == EX_FLOAT ? ex_read_floats(&column, floats, &failed)
                                                  : ex_read_int64s(&column, int64s, &failed);
                bool same = kind == (int)good->kind;
                HOLD(as[kind - 1] == (!same ? EX_KIND : fits ? EX_OK : EX_COUNT));
                if (nulls && same && fits) HOLD(valid[kind - 1] == (width == good->count));
            }
        }
    }
}

static bool same_values(const values *a, const values *b) {
    if (a->kind != b->kind || a->count != b->count) return false;
    if (a->kind == EX_INT64) return memcmp(a->int64s, b->int64s, a->count * sizeof(int64_t)) == 0;
    if (a->kind == EX_FLOAT) return memcmp(a->floats, b->floats, a->count * sizeof(float)) == 0;
    for (size_t i = 0; i < a->count; i++) {
        ex_bytes one = a->strings[i], two = b->strings[i];
        if (one.size != two.size || (one.size && memcmp(one.data, two.data, one.size)))
            return false;
    }
    return true;
}

/* Write what was read as a record of its own, and read that. */
static void check_again(const values *good) {
    static values again;
    ex_bytes slot;
    ex_key_slot table[4];
    uint32_t next[2];
    ex_keys one;
    ex_feature feature = {keys[2], good->kind, good->count, good->strings, 0, 0};
    size_t size = ex_measure_features(&feature, 1);
    uint8_t *record = malloc(ex_measure_field(size));
    HOLD(record != NULL);
    uint8_t *end = ex_put_features(ex_put_header(record, EX_FEATURES, size), &feature, 1);
    HOLD(end == record + ex_measure_field(size));
    ex_keys_init(&one, &keys[2], 1, table, next);
    ex_bytes whole = {record, (size_t)(end - record)};
    HOLD(ex_locate(&one, whole, EX_FEATURES, &slot, 1) == EX_OK && slot.data != NULL);
    if (whole.size <= MOST) {
        HOLD(read(slot, whole, &again));
        HOLD(same_values(good, &again));
    }
    free(record);
}

static void check_features(ex_bytes record, const ex_bytes *slots) {
    static values found;
    for (size_t i = 0; i < KEYS; i++) {
        if (slots[i].data == NULL) continue;
        inside(slots[i], record);
        if (!read(slots[i], record, &found)) continue;
        check_dense(slots[i], &found);
        check_again(&found);
    }
}

/* Each step of a feature list is a Feature like any other. Of a column of steps the counts are those
 * of the steps alone. */
static void check_steps(const ex_bytes *steps, size_t count, ex_bytes record) {
    static values found;
    static int64_t counts[MOST];
    size_t failed;
    ex_column column = {.slots = steps, .records = count};
    for (int kind = EX_BYTES; kind <= EX_INT64; kind++) {
        if (ex_count_column(&column, (ex_kind)kind, counts, &failed)) continue;
        for (size_t k = 0; k < count; k++) {
            size_t alone;
            ex_status status = ex_count(steps[k], (ex_kind)kind, &alone);
            HOLD(status == EX_MISSING ? counts[k] == 0 : counts[k] == (int64_t)alone);
        }
    }
    for (size_t k = 0; k < count; k++)
        if (read(steps[k], record, &found)) check_again(&found);
}

/* A few at a time give the same steps as all at once. */
static void check_runs(ex_bytes list, const ex_bytes *steps, size_t count) {
    ex_bytes few[3];
    size_t found = 0, taken = 0;
    do {
        HOLD(ex_steps(&list, few, 3, &found) == EX_OK && found <= count - taken);
        for (size_t k = 0; k < found; k++, taken++)
            HOLD(few[k].data == steps[taken].data && few[k].size == steps[taken].size);
    } while (found == 3);
    HOLD(taken == count && list.size == 0);
}

static void check_lists(ex_bytes record, const ex_bytes *slots) {
    static ex_bytes steps[MOST];
    size_t count, again;
    for (size_t i = 0; i < KEYS; i++) {
        ex_bytes counted = slots[i], taken = slots[i];
        if (taken.data == NULL || ex_steps(&counted, NULL, SIZE_MAX, &count)) continue;
        HOLD(count <= MOST && counted.size == 0);
        HOLD(ex_steps(&taken, steps, MOST, &again) == EX_OK && again == count);
        for (size_t k = 0; k < count; k++) inside(steps[k], record);
        check_runs(slots[i], steps, count);
        check_steps(steps, count, record);
    }
}

/* Walking and locating find the same: of a key that repeats, the last. */
static void check_walk(ex_bytes record, uint32_t map, ex_status located, const ex_bytes *slots) {
    ex_bytes last[KEYS] = {{0}}, key, value;
    ex_walk walk;
    ex_status status;
    ex_walk_init(&walk, record);
    while (!(status = ex_walk_next(&walk, map, &key, &value)) && key.data) {
        inside(key, record);
        inside(value, record);
        for (size_t i = 0; i < KEYS; i++)
            if (key.size == keys[i].size && !memcmp(key.data, keys[i].data, key.size))
                last[i] = value;
    }
    HOLD(status == located);
    for (size_t i = 0; !status && i < KEYS; i++)
        HOLD(last[i].data == slots[i].data && last[i].size == slots[i].size);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ex_key_slot table[16];
    uint32_t next[KEYS + 1];
    ex_bytes slots[KEYS];
    ex_keys wanted;
    if (size > MOST || ex_table_size(KEYS) > 16) return 0;
    uint8_t *data = malloc(size + !size);
    HOLD(data != NULL);
    memcpy(data, input, size);
    ex_bytes record = {data, size};
    ex_keys_init(&wanted, keys, KEYS, table, next);
    for (int twice = 0; twice < 2; twice++) { /* the second time by the order of the first */
        for (uint32_t map = EX_FEATURES; map <= EX_FEATURE_LISTS; map++) {
            ex_status status = ex_locate(&wanted, record, map, slots, 1);
            check_walk(record, map, status, slots);
            if (status == EX_OK && map == EX_FEATURES)
                check_features(record, slots);
            else if (status == EX_OK)
                check_lists(record, slots);
        }
    }
    free(data);
    return 0;
}
