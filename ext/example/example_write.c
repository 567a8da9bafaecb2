/* Writing: measure, then put each byte once. */
#include "example/example_wire.h"

ALWAYS_INLINE size_t varint_size(uint64_t value) {
    /* ceil(bits / 7) without a division; 0 takes one byte. */
    size_t bits = 64 - (size_t)__builtin_clzll(value | 1);
    return (bits * 9 + 64) / 64;
}

ALWAYS_INLINE uint8_t *put_varint(uint8_t *to, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

size_t ex_measure_field(size_t size) { return 1 + varint_size(size) + size; }

uint8_t *ex_put_header(uint8_t *to, uint32_t field, size_t size) {
    *to++ = (uint8_t)TAG(field, LENGTH);
    return put_varint(to, size);
}

uint8_t *ex_put_bytes(uint8_t *to, uint32_t field, ex_bytes bytes) {
    to = ex_put_header(to, field, bytes.size);
    if (bytes.size) memcpy(to, bytes.data, bytes.size);
    return to + bytes.size;
}

static size_t measure_values(const ex_feature *feature) {
    size_t size = 0;
    if (feature->kind == EX_FLOAT) return feature->count * sizeof(float);
    if (feature->kind == EX_INT64) {
        const int64_t *value = feature->values;
        for (size_t i = 0; i < feature->count; i++) size += varint_size((uint64_t)value[i]);
    } else if (feature->kind == EX_BYTES) {
        const ex_bytes *value = feature->values;
        for (size_t i = 0; i < feature->count; i++) size += ex_measure_field(value[i].size);
    }
    return size;
}

/* The list message inside a Feature. Packed values have a header of their own; an empty list
 * has none. */
static size_t list_size(const ex_feature *feature) {
    if (feature->kind == EX_BYTES || !feature->count) return feature->payload;
    return ex_measure_field(feature->payload);
}

static size_t feature_size(const ex_feature *feature) {
    return feature->kind == EX_NO_KIND ? 0 : ex_measure_field(list_size(feature));
}

static size_t entry_size(const ex_feature *feature) {
    return ex_measure_field(feature->key.size) + ex_measure_field(feature_size(feature));
}

size_t ex_measure_feature(ex_feature *feature) {
    feature->payload = measure_values(feature);
    return feature_size(feature);
}

size_t ex_measure_features(ex_feature *features, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        if (features[i].absent) continue;
        features[i].payload = measure_values(&features[i]);
        size += ex_measure_field(entry_size(&features[i]));
    }
    return size;
}

static uint8_t *put_values(uint8_t *to, const ex_feature *feature) {
    if (feature->kind == EX_BYTES) {
        const ex_bytes *value = feature->values;
        for (size_t i = 0; i < feature->count; i++) to = ex_put_bytes(to, 1, value[i]);
        return to;
    }
    if (!feature->count) return to;
    to = ex_put_header(to, 1, feature->payload);
    if (feature->kind == EX_FLOAT) {
        memcpy(to, feature->values, feature->payload);
        return to + feature->payload;
    }
    const int64_t *value = feature->values;
    for (size_t i = 0; i < feature->count; i++) to = put_varint(to, (uint64_t)value[i]);
    return to;
}

uint8_t *ex_put_feature(uint8_t *to, const ex_feature *feature) {
    if (feature->kind == EX_NO_KIND) return to;
    to = ex_put_header(to, (uint32_t)feature->kind, list_size(feature));
    return put_values(to, feature);
}

uint8_t *ex_put_features(uint8_t *to, const ex_feature *features, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (features[i].absent) continue;
        to = ex_put_header(to, 1, entry_size(&features[i]));
        to = ex_put_bytes(to, 1, features[i].key);
        to = ex_put_header(to, 2, feature_size(&features[i]));
        to = ex_put_feature(to, &features[i]);
    }
    return to;
}
