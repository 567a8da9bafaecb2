/* Any features into the Example writer: it writes exactly the bytes that it measured, and both ways of
 * reading find in them what was put in.
 *
 * The input is a row of features: a byte for kind and key, one for the number of values, then the
 * values, each behind a byte that says how large it is. One value at the end may be cut: it is zero.
 */
#include <string.h>

#include "example/example.h"
#include "oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { FEATURES = 8, VALUES = 256 };

typedef struct {
    const uint8_t *data;
    size_t size;
} source;

typedef struct {
    int64_t int64s[VALUES];
    float floats[VALUES];
    ex_bytes strings[VALUES];
} values;

static ex_bytes take(source *from, size_t size) {
    ex_bytes taken = {from->data, size < from->size ? size : from->size};
    from->data += taken.size;
    from->size -= taken.size;
    return taken;
}

static uint64_t take_number(source *from, size_t bytes) {
    uint8_t padded[8] = {0};
    ex_bytes taken = take(from, bytes);
    memcpy(padded, taken.data, taken.size);
    return load64(padded);
}

/* Keys differ in their first byte, which is the feature's number; some are long. */
static ex_bytes make_key(uint8_t *key, uint8_t number, size_t size) {
    memset(key, 'k', size);
    key[0] = number;
    return (ex_bytes){key, size};
}

static void take_value(source *from, ex_kind kind, values *out, size_t i) {
    size_t size = take_number(from, 1);
    uint32_t bits;
    switch (kind) {
    case EX_INT64:
        out->int64s[i] = (int64_t)take_number(from, size % 9);
        if (size & 0x80) out->int64s[i] = -(out->int64s[i] & INT64_MAX);
        break;
    case EX_FLOAT:
        bits = (uint32_t)take_number(from, 4);
        memcpy(&out->floats[i], &bits, sizeof bits);
        break;
    default: out->strings[i] = take(from, size);
    }
}

/* Each of them takes from the input at least a byte. */
static size_t take_features(source *from, ex_feature *features, uint8_t keys[][64],
                            values *columns) {
    size_t count = 0;
    while (from->size > 0 && count < FEATURES) {
        uint8_t shape = (uint8_t)take_number(from, 1);
        ex_feature *now = &features[count];
        *now = (ex_feature){.kind = (ex_kind)(shape & 3)};
        now->key = make_key(keys[count], (uint8_t)count, 1u + (shape >> 2) % 64);
        now->count = now->kind == EX_NO_KIND ? 0 : take_number(from, 1);
        if (now->count > from->size + 1) now->count = from->size + 1;
        for (size_t i = 0; i < now->count; i++) take_value(from, now->kind, &columns[count], i);
        now->values = now->kind == EX_INT64   ? (void *)columns[count].int64s
                      : now->kind == EX_FLOAT ? (void *)columns[count].floats
                                              : (void *)columns[count].strings;
        count++;
    }
    return count;
}

static void check_strings(const ex_column *column, const ex_feature *put) {
    static ex_bytes found[VALUES];
    size_t failed;
    const ex_bytes *wanted = put->values;
    HOLD(ex_read_bytes(column, found, &failed) == EX_OK);
    for (size_t i = 0; i < put->count; i++)
        HOLD(found[i].size == wanted[i].size &&
             (wanted[i].size == 0 || !memcmp(found[i].data, wanted[i].data, wanted[i].size)));
}

static void check_feature(ex_bytes slot, const ex_feature *put) {
    static values found;
    ex_kind kind;
    size_t count, failed;
    HOLD(slot.data != NULL && ex_kind_of(slot, &kind) == EX_OK && kind == put->kind);
    if (kind == EX_NO_KIND) return;
    HOLD(ex_count(slot, kind, &count) == EX_OK && count == put->count);
    ex_column column = {.slots = &slot, .records = 1, .width = count};
    if (kind == EX_BYTES) {
        check_strings(&column, put);
    } else if (kind == EX_FLOAT) {
        HOLD(ex_read_floats(&column, found.floats, &failed) == EX_OK);
        HOLD(memcmp(found.floats, put->values, count * sizeof(float)) == 0);
    } else {
        HOLD(ex_read_int64s(&column, found.int64s, &failed) == EX_OK);
        HOLD(memcmp(found.int64s, put->values, count * sizeof(int64_t)) == 0);
    }
}

static void check_located(ex_bytes record, const ex_feature *features, size_t count) {
    ex_key_slot table[32];
    uint32_t next[FEATURES + 1];
    ex_bytes names[FEATURES], slots[FEATURES];
    ex_keys wanted;
    HOLD(ex_table_size(FEATURES) <= 32);
    for (size_t i = 0; i < count; i++) names[i] = features[i].key;
    ex_keys_init(&wanted, names, count, table, next);
    HOLD(ex_locate(&wanted, record, EX_FEATURES, slots, 1) == EX_OK);
    for (size_t i = 0; i < count; i++) check_feature(slots[i], &features[i]);
}

static void check_walked(ex_bytes record, const ex_feature *features, size_t count) {
    ex_walk walk;
    ex_bytes key, value;
    ex_walk_init(&walk, record);
    for (size_t i = 0; i < count; i++) {
        HOLD(ex_walk_next(&walk, EX_FEATURES, &key, &value) == EX_OK);
        HOLD(key.size == features[i].key.size && !memcmp(key.data, features[i].key.data, key.size));
        check_feature(value, &features[i]);
    }
    HOLD(ex_walk_next(&walk, EX_FEATURES, &key, &value) == EX_OK && key.data == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static values columns[FEATURES];
    static uint8_t keys[FEATURES][64];
    ex_feature features[FEATURES];
    source from = {input, size};
    size_t count = take_features(&from, features, keys, columns);
    size_t inner = ex_measure_features(features, count), whole = ex_measure_field(inner);
    uint8_t *bytes = malloc(whole);
    HOLD(bytes != NULL);
    HOLD(ex_put_features(ex_put_header(bytes, EX_FEATURES, inner), features, count) ==
         bytes + whole);
    ex_bytes record = {bytes, whole};
    check_located(record, features, count);
    check_walked(record, features, count);
    free(bytes);
    return 0;
}
