#include "example.h"

#include <stdbool.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "floats are copied as the wire has them: little-endian"
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Protobuf wire types, the low three bits of a tag. */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
enum { TAG_BITS = 3, MAX_VARINT = 10 };
#define TAG(field, type) ((uint32_t)((field) << TAG_BITS | (type)))

const char *ex_reason(ex_status status) {
    switch (status) {
    case EX_OK: return "nothing is wrong";
    case EX_CUT: return "a length reaches past the end of what holds it";
    case EX_VARINT: return "a varint is cut or longer than 10 bytes";
    case EX_TAG: return "a field's tag is not valid";
    case EX_GROUP: return "a field has a wire type that Examples do not use";
    case EX_ENTRY: return "a map entry has its key or its value twice";
    case EX_PACKED: return "the size of packed floats is no multiple of 4";
    case EX_MISSING: return "the feature is missing";
    case EX_KIND: return "the feature holds values of another kind";
    case EX_COUNT: return "the feature holds another number of values";
    }
    return "unknown";
}

/* ---- reading: fields --------------------------------------------------- */

static ex_status long_varint(ex_bytes *in, uint64_t *value) {
    uint64_t result = 0;
    for (size_t i = 0; i < in->size && i < MAX_VARINT; i++) {
        /* Of the tenth byte one bit counts; the others fall off, as in protobuf. */
        result |= (uint64_t)(in->data[i] & 0x7f) << (7 * i);
        if (in->data[i] < 0x80) {
            in->data += i + 1;
            in->size -= i + 1;
            *value = result;
            return EX_OK;
        }
    }
    return EX_VARINT;
}

ALWAYS_INLINE ex_status get_varint(ex_bytes *in, uint64_t *value) {
    if (in->size && in->data[0] < 0x80) {
        *value = in->data[0];
        in->data++;
        in->size--;
        return EX_OK;
    }
    return long_varint(in, value);
}

/* Take the field at the front of `in`. `body` is its payload: what a length
 * counts, the 4 or 8 bytes of a fixed field, or the bytes of a varint. */
ALWAYS_INLINE ex_status next_field(ex_bytes *in, uint32_t *tag, ex_bytes *body) {
    uint64_t wide, size;
    ex_status status = get_varint(in, &wide);
    if (UNLIKELY(status)) return status;
    if (UNLIKELY(wide > UINT32_MAX || wide >> TAG_BITS == 0)) return EX_TAG;
    *tag = (uint32_t)wide;
    *body = *in;
    switch (*tag & 7) {
    case LENGTH:
        if (UNLIKELY((status = get_varint(in, &size)))) return status;
        body->data = in->data;
        break;
    case FIXED64: size = 8; break;
    case FIXED32: size = 4; break;
    case VARINT:
        if (UNLIKELY((status = get_varint(in, &size)))) return status;
        body->size = (size_t)(in->data - body->data);
        return EX_OK;
    default: return EX_GROUP;
    }
    if (UNLIKELY(size > in->size)) return EX_CUT;
    body->size = (size_t)size;
    in->data += size;
    in->size -= (size_t)size;
    return EX_OK;
}

/* ---- reading: maps ----------------------------------------------------- */

static ex_status read_entry(ex_bytes entry, ex_bytes *key, ex_bytes *value) {
    bool has_key = false, has_value = false;
    /* An absent key is the empty string and an absent value an empty message. */
    *key = *value = (ex_bytes){entry.data, 0};
    while (entry.size) {
        uint32_t tag;
        ex_bytes body;
        ex_status status = next_field(&entry, &tag, &body);
        if (UNLIKELY(status)) return status;
        if (tag == TAG(1, LENGTH)) {
            if (UNLIKELY(has_key)) return EX_ENTRY;
            has_key = true;
            *key = body;
        } else if (tag == TAG(2, LENGTH)) {
            if (UNLIKELY(has_value)) return EX_ENTRY;
            has_value = true;
            *value = body;
        }
    }
    return EX_OK;
}

/* The front of a map as every serializer writes it, with lengths of one byte: false, and nothing
 * taken, where it is anything else. Only a short cut for `next_field` and `read_entry`. */
ALWAYS_INLINE bool short_entry(ex_bytes *in, ex_bytes *key, ex_bytes *value) {
    const uint8_t *at = in->data;
    if (in->size < 6 || at[0] != TAG(1, LENGTH) || at[2] != TAG(1, LENGTH)) return false;
    size_t entry = at[1], name = at[3];
    if (entry >= 0x80 || entry + 2 > in->size || name + 4 > entry) return false;
    if (at[name + 4] != TAG(2, LENGTH) || name + at[name + 5] + 4 != entry) return false;
    *key = (ex_bytes){at + 4, name};
    *value = (ex_bytes){at + name + 6, at[name + 5]};
    in->data += entry + 2;
    in->size -= entry + 2;
    return true;
}

void ex_walk_init(ex_walk *self, ex_bytes record) {
    self->outer = record;
    self->inner = (ex_bytes){record.data, 0};
}

ALWAYS_INLINE ex_status walk_next(ex_walk *self, uint32_t map, ex_bytes *key, ex_bytes *value) {
    uint32_t tag;
    ex_bytes body;
    for (;;) {
        if (short_entry(&self->inner, key, value)) return EX_OK;
        bool in_map = self->inner.size != 0;
        ex_bytes *from = in_map ? &self->inner : &self->outer;
        if (!from->size) {
            *key = (ex_bytes){NULL, 0};
            return EX_OK;
        }
        ex_status status = next_field(from, &tag, &body);
        if (UNLIKELY(status)) return status;
        if (in_map && tag == TAG(1, LENGTH)) return read_entry(body, key, value);
        if (!in_map && tag == TAG(map, LENGTH)) self->inner = body;
    }
}

ex_status ex_walk_next(ex_walk *self, uint32_t map, ex_bytes *key, ex_bytes *value) {
    return walk_next(self, map, key, value);
}

/* ---- reading: wanted keys ---------------------------------------------- */

ALWAYS_INLINE uint64_t load(const uint8_t *from, size_t size) {
    uint64_t word = 0;
    memcpy(&word, from, size);
    return word;
}

/* Names are short: two overlapping loads settle most without calling memcmp. */
ALWAYS_INLINE bool same(ex_bytes a, ex_bytes b) {
    size_t n = a.size;
    if (n != b.size) return false;
    if (n > 16) return memcmp(a.data, b.data, n) == 0;
    if (n >= 8)
        return load(a.data, 8) == load(b.data, 8) &&
               load(a.data + n - 8, 8) == load(b.data + n - 8, 8);
    if (n >= 4)
        return load(a.data, 4) == load(b.data, 4) &&
               load(a.data + n - 4, 4) == load(b.data + n - 4, 4);
    for (size_t i = 0; i < n; i++)
        if (a.data[i] != b.data[i]) return false;
    return true;
}

/* Eight bytes a step. It only has to tell a schema's keys apart; those are the user's, so
 * nobody can flood the table. */
static uint64_t hash_bytes(ex_bytes key) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t hash = (uint64_t)key.size * odd, word;
    for (; key.size >= 8; key.data += 8, key.size -= 8) {
        memcpy(&word, key.data, 8);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    }
    word = 0;
    if (key.size) memcpy(&word, key.data, key.size);
    hash = (hash ^ word) * odd;
    return hash ^ hash >> 32;
}

size_t ex_table_size(size_t count) {
    size_t size = 4;
    while (size < 2 * count) size *= 2;
    return size;
}

static ex_key_slot *probe(const ex_keys *self, ex_bytes key, uint64_t hash) {
    for (size_t at = (size_t)hash & self->mask;; at = (at + 1) & self->mask) {
        ex_key_slot *slot = &self->table[at];
        if (!slot->key) return slot;
        if (slot->hash == hash && same(self->keys[slot->key - 1], key)) return slot;
    }
}

void ex_keys_init(ex_keys *self, const ex_bytes *keys, size_t count, ex_key_slot *table,
                  uint32_t *guess) {
    size_t size = ex_table_size(count);
    *self = (ex_keys){keys, count, table, size - 1, guess};
    memset(table, 0, size * sizeof *table);
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = hash_bytes(keys[i]);
        *probe(self, keys[i], hash) = (ex_key_slot){hash, (uint32_t)(i + 1)};
        guess[i] = 0;
    }
}

/* Index + 1 of a key, 0 if nobody wants it. Records of one dataset mostly hold the same
 * keys in the same order, so the key met at this place before is tried first. */
ALWAYS_INLINE uint32_t find(ex_keys *self, ex_bytes key, size_t place) {
    if (place < self->count) {
        uint32_t guess = self->guess[place];
        if (guess && same(self->keys[guess - 1], key)) return guess;
    }
    uint32_t found = probe(self, key, hash_bytes(key))->key;
    if (found && place < self->count) self->guess[place] = found;
    return found;
}

ex_status ex_locate(ex_keys *keys, ex_bytes record, uint32_t map, ex_bytes *slots, size_t stride) {
    ex_walk walk;
    ex_bytes key, value;
    size_t place = 0;
    for (size_t k = 0; k < keys->count; k++) slots[k * stride] = (ex_bytes){NULL, 0};
    ex_walk_init(&walk, record);
    for (;;) {
        ex_status status = walk_next(&walk, map, &key, &value);
        if (UNLIKELY(status)) return status;
        if (!key.data) return EX_OK;
        uint32_t found = find(keys, key, place);
        if (!found) continue;
        slots[(found - 1) * stride] = value;
        place++;
    }
}

/* ---- reading: one feature ---------------------------------------------- */

/* Feature is a oneof: a list of another kind clears what came before, one of the same
 * kind adds to it. So the values are the lists of the last run of one kind, and `run` the
 * bytes of the Feature that hold it. */
ALWAYS_INLINE ex_status open_feature(ex_bytes feature, ex_kind *kind, ex_bytes *run) {
    *kind = EX_NO_KIND;
    *run = feature;
    while (feature.size) {
        ex_bytes from = feature, body;
        uint32_t tag;
        ex_status status = next_field(&feature, &tag, &body);
        if (UNLIKELY(status)) return status;
        uint32_t field = tag >> TAG_BITS;
        if ((tag & 7) != LENGTH || field > EX_INT64 || field == *kind) continue;
        *kind = (ex_kind)field;
        *run = from;
    }
    return EX_OK;
}

ex_status ex_kind_of(ex_bytes feature, ex_kind *kind) {
    ex_bytes run;
    return open_feature(feature, kind, &run);
}

ALWAYS_INLINE ex_status open_as(ex_bytes feature, ex_kind kind, ex_bytes *run) {
    ex_kind found;
    if (!feature.data) return EX_MISSING;
    ex_status status = open_feature(feature, &found, run);
    if (UNLIKELY(status)) return status;
    return found == kind ? EX_OK : found == EX_NO_KIND ? EX_MISSING : EX_KIND;
}

/* The next field of the list(s) in `run` that holds values; *more is false at the end. */
typedef struct {
    ex_bytes run, list;
    uint32_t list_tag;
} values;

ALWAYS_INLINE ex_status next_values(values *self, uint32_t *tag, ex_bytes *body, bool *more) {
    for (;;) {
        ex_status status;
        *more = true;
        if (self->list.size) {
            if (UNLIKELY((status = next_field(&self->list, tag, body)))) return status;
            if (*tag >> TAG_BITS == 1) return EX_OK;
        } else if (self->run.size) {
            if (UNLIKELY((status = next_field(&self->run, tag, body)))) return status;
            if (*tag == self->list_tag) self->list = *body;
        } else {
            *more = false;
            return EX_OK;
        }
    }
}

static size_t count_varints(ex_bytes packed) {
    size_t count = 0;
    for (size_t i = 0; i < packed.size; i++) count += packed.data[i] < 0x80;
    return count;
}

/* How many values one field of a list holds; fields of a foreign wire type hold none. */
ALWAYS_INLINE size_t values_in(ex_kind kind, uint32_t tag, ex_bytes body) {
    uint32_t type = tag & 7;
    if (kind == EX_BYTES) return type == LENGTH;
    if (kind == EX_FLOAT) return type == LENGTH ? body.size / 4 : type == FIXED32;
    return type == LENGTH ? count_varints(body) : type == VARINT;
}

ALWAYS_INLINE ex_status count_values(ex_bytes feature, ex_kind kind, size_t *count) {
    values in = {.list_tag = TAG(kind, LENGTH)};
    uint32_t tag;
    ex_bytes body;
    bool more;
    *count = 0;
    ex_status status = open_as(feature, kind, &in.run);
    if (status) return status;
    while (!(status = next_values(&in, &tag, &body, &more)) && more) {
        if (UNLIKELY(kind == EX_FLOAT && (tag & 7) == LENGTH && body.size % 4)) return EX_PACKED;
        *count += values_in(kind, tag, body);
    }
    return status;
}

ex_status ex_count(ex_bytes feature, ex_kind kind, size_t *count) {
    return count_values(feature, kind, count);
}

ex_status ex_steps(ex_bytes feature_list, ex_bytes *steps, size_t *count) {
    *count = 0;
    while (feature_list.size) {
        uint32_t tag;
        ex_bytes body;
        ex_status status = next_field(&feature_list, &tag, &body);
        if (status) return status;
        if (tag != TAG(1, LENGTH)) continue;
        if (steps) steps[*count] = body;
        ++*count;
    }
    return EX_OK;
}

/* ---- reading: columns -------------------------------------------------- */

/* Each take_* moves the values of one field to `out`, of which `room` places are free. */

ALWAYS_INLINE ex_status take_floats(uint32_t tag, ex_bytes body, float *out, size_t room,
                                    size_t *taken) {
    bool packed = (tag & 7) == LENGTH;
    *taken = 0;
    if (!packed && (tag & 7) != FIXED32) return EX_OK;
    if (UNLIKELY(body.size % 4)) return EX_PACKED;
    if (UNLIKELY(body.size / 4 > room)) return EX_COUNT;
    if (body.size) memcpy(out, body.data, body.size);
    *taken = body.size / 4;
    return EX_OK;
}

ALWAYS_INLINE ex_status take_int64s(uint32_t tag, ex_bytes body, int64_t *out, size_t room,
                                    size_t *taken) {
    *taken = 0;
    if ((tag & 7) != LENGTH && (tag & 7) != VARINT) return EX_OK;
    size_t n = 0;
    while (body.size) {
        uint64_t value;
        ex_status status = get_varint(&body, &value);
        if (UNLIKELY(status)) return status;
        if (UNLIKELY(n == room)) return EX_COUNT;
        out[n++] = (int64_t)value;
    }
    *taken = n;
    return EX_OK;
}

ALWAYS_INLINE ex_status take_bytes(uint32_t tag, ex_bytes body, ex_bytes *out, size_t room,
                                   size_t *taken) {
    *taken = 0;
    if ((tag & 7) != LENGTH) return EX_OK;
    if (UNLIKELY(!room)) return EX_COUNT;
    *out = body;
    *taken = 1;
    return EX_OK;
}

ex_status ex_count_column(const ex_column *column, ex_kind kind, int64_t *counts, size_t *failed) {
    for (size_t i = 0; i < column->records; i++) {
        size_t count;
        ex_status status = count_values(column->slots[i], kind, &count);
        if (UNLIKELY(status && status != EX_MISSING)) {
            *failed = i;
            return status;
        }
        counts[i] = (int64_t)count;
    }
    return EX_OK;
}

/* The one field of values of a Feature as serializers write small ones: a list that holds one field of
 * known length, each length of one byte. Only a short cut for `open_as` and `next_values`. */
ALWAYS_INLINE bool short_values(ex_bytes feature, ex_kind kind, ex_bytes *body) {
    const uint8_t *at = feature.data;
    size_t size = feature.size;
    if (size < 4 || size >= 0x80 || at[0] != TAG(kind, LENGTH) || at[1] != size - 2) return false;
    if (at[2] != TAG(1, LENGTH) || at[3] != size - 4) return false;
    *body = (ex_bytes){at + 4, size - 4};
    return true;
}

/* The three readers differ in their value type alone: the rows of a column, the fields of a
 * row, the values of a field. */
#define DEFINE_READER(NAME, TYPE, KIND, TAKE)                                                     \
    ALWAYS_INLINE ex_status NAME##_row(ex_bytes feature, TYPE *out, size_t room) {                \
        values in = {.list_tag = TAG(KIND, LENGTH)};                                              \
        uint32_t tag;                                                                             \
        ex_bytes body;                                                                            \
        bool more;                                                                                \
        size_t taken;                                                                             \
        ex_status status;                                                                         \
        if (short_values(feature, KIND, &body)) {                                                 \
            status = TAKE(TAG(1, LENGTH), body, out, room, &taken);                               \
            return status ? status : taken == room ? EX_OK : EX_COUNT;                            \
        }                                                                                         \
        status = open_as(feature, KIND, &in.run);                                                 \
        if (status) return status;                                                                \
        while (!(status = next_values(&in, &tag, &body, &more)) && more) {                        \
            if (UNLIKELY((status = TAKE(tag, body, out, room, &taken)))) return status;           \
            out += taken;                                                                         \
            room -= taken;                                                                        \
        }                                                                                         \
        return status ? status : room ? EX_COUNT : EX_OK;                                         \
    }                                                                                             \
                                                                                                  \
    ex_status NAME(const ex_column *column, TYPE *out, size_t *failed) {                          \
        for (size_t i = 0; i < column->records; i++) {                                            \
            const int64_t *splits = column->splits;                                               \
            size_t start = splits ? (size_t)splits[i] : i * column->width;                        \
            size_t room = splits ? (size_t)splits[i + 1] - start : column->width;                 \
            ex_status status = NAME##_row(column->slots[i], out + start, room);                   \
            if (status == EX_MISSING && column->fallback) {                                       \
                memcpy(out + start, column->fallback, room * sizeof(TYPE));                       \
            } else if (UNLIKELY(status) && !(status == EX_MISSING && splits && !room)) {          \
                *failed = i;                                                                      \
                return status;                                                                    \
            }                                                                                     \
        }                                                                                         \
        return EX_OK;                                                                             \
    }

DEFINE_READER(ex_read_floats, float, EX_FLOAT, take_floats)
DEFINE_READER(ex_read_int64s, int64_t, EX_INT64, take_int64s)
DEFINE_READER(ex_read_bytes, ex_bytes, EX_BYTES, take_bytes)
