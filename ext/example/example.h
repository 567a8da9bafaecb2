/* tf.train.Example and SequenceExample on the wire.
 *
 * Plain C: no Python, no allocation, no I/O, no recursion. The messages, from
 * tensorflow/core/example/{example,feature}.proto:
 *
 *   Example         { Features features = 1; }
 *   SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
 *   Features        { map<string, Feature> feature = 1; }
 *   FeatureLists    { map<string, FeatureList> feature_list = 1; }
 *   FeatureList     { repeated Feature feature = 1; }
 *   Feature         { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
 *   BytesList       { repeated bytes value = 1; }
 *   FloatList       { repeated float value = 1 [packed]; }
 *   Int64List       { repeated int64 value = 1 [packed]; }
 *
 * Reading takes two steps. `ex_locate` notes where the wanted features of one record
 * lie, and steps over the others. Then `ex_read_*` decodes one column over many
 * records in one tight loop. Where a key repeats, the last entry counts, as in protobuf.
 * Unknown fields are skipped. Groups (an encoding that protobuf retired) and map
 * entries with two keys or two values are refused, as TensorFlow's own parser does.
 */
#ifndef TFIO_STORE_EXAMPLE_H
#define TFIO_STORE_EXAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes. As a slot of `ex_locate`, `data == NULL` says "not there". */
typedef struct {
    const uint8_t *data;
    size_t size;
} ex_bytes;

/* The numbers are Feature's field numbers. */
typedef enum { EX_NO_KIND = 0, EX_BYTES = 1, EX_FLOAT = 2, EX_INT64 = 3 } ex_kind;

typedef enum {
    EX_OK = 0,
    /* The bytes are not the message: */
    EX_CUT,    /* a length reaches past its parent's end */
    EX_VARINT, /* a varint is cut, or longer than 10 bytes */
    EX_TAG,    /* field number 0, or a tag over 32 bits */
    EX_GROUP,  /* a group, or a wire type that does not exist */
    EX_ENTRY,  /* a map entry with two keys or two values */
    EX_PACKED, /* packed floats whose size is no multiple of 4 */
    /* The message is not what the reader asked for: */
    EX_MISSING, /* no such feature, or one that holds no list */
    EX_KIND,    /* the feature holds values of another kind */
    EX_COUNT    /* the feature holds another number of values */
} ex_status;

/* One sentence for people, in static memory. */
const char *ex_reason(ex_status status);

/* ---- reading ---------------------------------------------------------- */

/* Which map of a record: a top-level field number. */
enum { EX_FEATURES = 1, EX_CONTEXT = 1, EX_FEATURE_LISTS = 2 };

typedef struct {
    uint64_t hash;
    uint32_t key; /* index + 1; 0 is a free slot */
} ex_key_slot;

/* The wanted keys: an open-addressing table over caller's memory. */
typedef struct {
    const ex_bytes *keys;
    size_t count;
    ex_key_slot *table; /* ex_table_size(count) of them */
    size_t mask;
    uint64_t looks; /* a bit for each look that a wanted key has */
    uint32_t *next; /* by a key + 1, the key + 1 that came after it; at [0], that came first */
} ex_keys;

size_t ex_table_size(size_t count);

/* `table` and `next`, of `count` + 1 places, need no preparation. Keys must differ. */
void ex_keys_init(ex_keys *self, const ex_bytes *keys, size_t count, ex_key_slot *table,
                  uint32_t *next);

/* Note where the values of the wanted keys lie in one record: `slots[k * stride]`
 * for key k. Slots of absent keys are set to {NULL, 0}. `map` is EX_FEATURES,
 * EX_CONTEXT (Features) or EX_FEATURE_LISTS (FeatureLists). */
ex_status ex_locate(ex_keys *keys, ex_bytes record, uint32_t map, ex_bytes *slots, size_t stride);

/* Walk every entry of the map: call with *at = 0 first, until *key is {NULL, 0}.
 * Repeated keys are given each time they occur. */
typedef struct {
    ex_bytes outer; /* what remains of the record */
    ex_bytes inner; /* what remains of the map being walked */
} ex_walk;

void ex_walk_init(ex_walk *self, ex_bytes record);
ex_status ex_walk_next(ex_walk *self, uint32_t map, ex_bytes *key, ex_bytes *value);

/* The kind of values in a Feature; EX_NO_KIND for an empty one. */
ex_status ex_kind_of(ex_bytes feature, ex_kind *kind);

/* How many values of `kind` the Feature holds. EX_MISSING, EX_KIND. */
ex_status ex_count(ex_bytes feature, ex_kind kind, size_t *count);

/* Takes at most `room` Features from the front of a FeatureList: how many, and (if not NULL) where they
 * lie. `feature_list` is what remains behind them: nothing, once all are taken. */
ex_status ex_steps(ex_bytes *feature_list, ex_bytes *steps, size_t room, size_t *count);

/* What one column is read into. Record i has values `splits[i] .. splits[i+1]` of the
 * output, or with splits NULL `i * width .. (i + 1) * width`. Where the feature is
 * absent, `fallback` (width values) takes its place; with fallback NULL it is
 * EX_MISSING, except that a row that splits say is empty stays so.
 *
 * If `valid` is not NULL, records may be null: without the feature, or with one of no values. `valid[i]`
 * becomes 0 for these and 1 for the others, and zeros take the places of what a null lacks. */
typedef struct {
    const ex_bytes *slots;
    size_t records;
    const int64_t *splits;
    size_t width;
    const void *fallback;
    uint8_t *valid;
} ex_column;

/* Counts the values of each record: 0 where the feature is absent. `counts` has `records`
 * places. On failure `*failed` is the record. */
ex_status ex_count_column(const ex_column *column, ex_kind kind, int64_t *counts, size_t *failed);

ex_status ex_read_floats(const ex_column *column, float *out, size_t *failed);
ex_status ex_read_int64s(const ex_column *column, int64_t *out, size_t *failed);
ex_status ex_read_bytes(const ex_column *column, ex_bytes *out, size_t *failed);

/* ---- writing ---------------------------------------------------------- */

/* One feature to write. `values` are `count` float, int64_t or ex_bytes. */
typedef struct {
    ex_bytes key;
    ex_kind kind; /* EX_NO_KIND writes an empty Feature */
    size_t count;
    const void *values;
    size_t payload; /* set by ex_measure_values: bytes of the value fields without packing header */
    uint8_t absent; /* a null: ex_*_features pass over it */
} ex_feature;

/* Bytes that ex_put_* will write. They set `payload`, which writing relies on. */
size_t ex_measure_feature(ex_feature *feature);                 /* a bare Feature */
size_t ex_measure_features(ex_feature *features, size_t count); /* the Features message */
size_t ex_measure_field(size_t size);                           /* tag < 16, length, `size` bytes */

/* Each returns the byte after the last one written. Features are written in the given order. */
uint8_t *ex_put_header(uint8_t *to, uint32_t field, size_t size); /* tag and length */
uint8_t *ex_put_bytes(uint8_t *to, uint32_t field, ex_bytes bytes);
uint8_t *ex_put_feature(uint8_t *to, const ex_feature *feature);
uint8_t *ex_put_features(uint8_t *to, const ex_feature *features, size_t count);

#endif
