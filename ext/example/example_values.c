/* Reading, second step: the values of features, column by column. */
#include "example/example_wire.h"

/* ---- one feature ---------------------------------------------- */

/* Feature is a oneof. A list of another kind clears what came before; one of the same kind
 * adds to it. So the values are the lists of the last run of one kind. `run` is the bytes of
 * the Feature that hold that run. */
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

/* Counts the values of one field of a list. A field of a foreign wire type holds none. */
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
        if ((tag & 7) == LENGTH && body.size) {
            if (UNLIKELY(kind == EX_FLOAT && body.size % 4)) return EX_PACKED;
            if (UNLIKELY(kind == EX_INT64 && body.data[body.size - 1] >= 0x80)) return EX_VARINT;
        }
        *count += values_in(kind, tag, body);
    }
    return status;
}

ex_status ex_count(ex_bytes feature, ex_kind kind, size_t *count) {
    return count_values(feature, kind, count);
}

ex_status ex_steps(ex_bytes *feature_list, ex_bytes *steps, size_t room, size_t *count) {
    *count = 0;
    while (feature_list->size && *count < room) {
        uint32_t tag;
        ex_bytes body;
        ex_status status = next_field(feature_list, &tag, &body);
        if (status) return status;
        if (tag != TAG(1, LENGTH)) continue;
        if (steps) steps[*count] = body;
        ++*count;
    }
    return EX_OK;
}

/* ---- columns -------------------------------------------------- */

/* Each take_* moves the values of one field to `out`, where `room` places are free. */

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

/* The seven low bits of each of a word's bytes, side by side. */
ALWAYS_INLINE int64_t joined(uint64_t word) {
    word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
    word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
    return (int64_t)((word & 0x0fffffff) | (word & 0x0fffffff00000000) >> 4);
}

/* Takes eight, two or one varints that lie in the next eight bytes, and says how many: none if they
 * hold no whole one. The ends of two are known at once, so that nothing waits for the first one, and
 * no branch hangs on how long they are. */
ALWAYS_INLINE size_t take_word(ex_bytes *in, int64_t *out) {
    const uint64_t tops = 0x8080808080808080;
    uint64_t word;
    memcpy(&word, in->data, sizeof word);
    uint64_t ends = ~word & tops, second = ends & (ends - 1), last = second ? second : ends;
    if (UNLIKELY(!ends)) return 0;
    size_t nbytes = sizeof word, count = nbytes;
    if (ends == tops) {
        for (size_t i = 0; i < count; i++) out[i] = in->data[i];
    } else {
        uint64_t first = word & (ends ^ (ends - 1));
        out[0] = joined(first);
        nbytes = ((size_t)__builtin_ctzll(last) + 1) / 8;
        count = 1;
        if (second) {
            int behind = __builtin_ctzll(ends) + 1;
            out[1] = joined((word & (second ^ (second - 1))) >> behind);
            count = 2;
        }
    }
    in->data += nbytes;
    in->size -= nbytes;
    return count;
}

ALWAYS_INLINE ex_status take_int64s(uint32_t tag, ex_bytes body, int64_t *out, size_t room,
                                    size_t *taken) {
    *taken = 0;
    if ((tag & 7) != LENGTH && (tag & 7) != VARINT) return EX_OK;
    size_t n = 0;
    while (body.size) {
        if (body.size >= 8 && room - n >= 8) {
            size_t count = take_word(&body, out + n);
            n += count;
            if (count) continue;
        }
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

/* A short cut for `open_as` and `next_values`: takes the values of a small Feature as serializers
 * write it. That is a list of one field of known length, with lengths of one byte. */
ALWAYS_INLINE bool short_values(ex_bytes feature, ex_kind kind, ex_bytes *body) {
    const uint8_t *at = feature.data;
    size_t size = feature.size;
    if (size < 4 || size >= 0x80 || at[0] != TAG(kind, LENGTH) || at[1] != size - 2) return false;
    if (at[2] != TAG(1, LENGTH) || at[3] != size - 4) return false;
    *body = (ex_bytes){at + 4, size - 4};
    return true;
}

/* Whether a record whose values can't be read as asked is a null. */
static bool is_null(const ex_column *column, size_t record, ex_kind kind, ex_status status) {
    size_t count;
    if (!column->valid || status == EX_MISSING) return column->valid != NULL;
    return status == EX_COUNT && !ex_count(column->slots[record], kind, &count) && !count;
}

/* The three readers differ in their value type alone. Each goes over the rows of a column, the
 * fields of a row, and the values of a field. */
#define DEFINE_READER(NAME, TYPE, KIND, TAKE)                                                      \
    ALWAYS_INLINE ex_status NAME##_row(ex_bytes feature, TYPE *out, size_t room) {                 \
        values in = {.list_tag = TAG(KIND, LENGTH)};                                               \
        uint32_t tag;                                                                              \
        ex_bytes body;                                                                             \
        bool more;                                                                                 \
        size_t taken;                                                                              \
        ex_status status;                                                                          \
        if (short_values(feature, KIND, &body)) {                                                  \
            status = TAKE(TAG(1, LENGTH), body, out, room, &taken);                                \
            return status ? status : taken == room ? EX_OK : EX_COUNT;                             \
        }                                                                                          \
        status = open_as(feature, KIND, &in.run);                                                  \
        if (status) return status;                                                                 \
        while (!(status = next_values(&in, &tag, &body, &more)) && more) {                         \
            if (UNLIKELY((status = TAKE(tag, body, out, room, &taken)))) return status;            \
            out += taken;                                                                          \
            room -= taken;                                                                         \
        }                                                                                          \
        return status ? status : room ? EX_COUNT : EX_OK;                                          \
    }                                                                                              \
                                                                                                   \
    ex_status NAME(const ex_column *column, TYPE *out, size_t *failed) {                           \
        for (size_t i = 0; i < column->records; i++) {                                             \
            const int64_t *splits = column->splits;                                                \
            size_t start = splits ? (size_t)splits[i] : i * column->width;                         \
            size_t room = splits ? (size_t)splits[i + 1] - start : column->width;                  \
            ex_status status = NAME##_row(column->slots[i], out + start, room);                    \
            if (column->valid) column->valid[i] = !status;                                         \
            if (!status) continue;                                                                 \
            if (status == EX_MISSING && column->fallback) {                                        \
                memcpy(out + start, column->fallback, room * sizeof(TYPE));                        \
            } else if (is_null(column, i, KIND, status)) {                                         \
                memset(out + start, 0, room * sizeof(TYPE));                                       \
            } else if (!(status == EX_MISSING && splits && !room)) {                               \
                *failed = i;                                                                       \
                return status;                                                                     \
            }                                                                                      \
        }                                                                                          \
        return EX_OK;                                                                              \
    }

DEFINE_READER(ex_read_floats, float, EX_FLOAT, take_floats)
DEFINE_READER(ex_read_int64s, int64_t, EX_INT64, take_int64s)
DEFINE_READER(ex_read_bytes, ex_bytes, EX_BYTES, take_bytes)
