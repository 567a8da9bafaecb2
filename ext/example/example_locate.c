/* Reading, first step: the maps of a record, and where the wanted features lie. */
#include "example/example_wire.h"

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

/* ---- maps ----------------------------------------------------- */

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

/* A short cut for `next_field` and `read_entry`: takes the front of a map as every serializer writes
 * it, with lengths of one byte. If it is anything else, it takes nothing and answers false. */
ALWAYS_INLINE bool short_entry(ex_bytes *in, ex_bytes *key, ex_bytes *value) {
    const uint8_t *at = in->data;
    if (in->size < 6 || at[0] != TAG(1, LENGTH) || at[2] != TAG(1, LENGTH)) return false;
    size_t entry = at[1], name = at[3];
    if (entry >= 0x80 || entry + 2 > in->size || name + 4 > entry) return false;
    size_t size = entry - name - 4;
    if (at[name + 4] != TAG(2, LENGTH) || at[name + 5] != size) return false;
    *key = (ex_bytes){at + 4, name};
    *value = (ex_bytes){at + name + 6, size};
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

/* ---- wanted keys ---------------------------------------------- */

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

/* Takes eight bytes a step. It only has to tell a schema's keys apart. The user chose those, so
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

/* What tells most unwanted keys from the wanted ones without a hash: a bit by length and ends. */
ALWAYS_INLINE uint64_t look_of(ex_bytes key) {
    if (!key.size) return 1;
    size_t look = key.size + 7u * key.data[0] + 31u * key.data[key.size - 1];
    return (uint64_t)1 << (look & 63);
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
                  uint32_t *next) {
    size_t size = ex_table_size(count);
    *self = (ex_keys){keys, count, table, size - 1, 0, next};
    memset(table, 0, size * sizeof *table);
    next[0] = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = hash_bytes(keys[i]);
        *probe(self, keys[i], hash) = (ex_key_slot){hash, (uint32_t)(i + 1)};
        self->looks |= look_of(keys[i]);
        next[i + 1] = 0;
    }
}

/* Finds a key: its index + 1, or 0 if nobody wants it. `last` is the wanted key before it, + 1.
 *
 * Records of one dataset mostly hold the same keys in the same order, of which nulls leave some out.
 * So the key that came next before is tried first, and then the one after that. What they are is
 * changed for a key only that neither was: where one is left out, the order stays known. */
ALWAYS_INLINE uint32_t find(ex_keys *self, ex_bytes key, uint32_t last) {
    uint32_t next = self->next[last];
    if (next && same(self->keys[next - 1], key)) return next;
    if (!(self->looks & look_of(key))) return 0;
    next = next ? self->next[next] : 0;
    if (next && same(self->keys[next - 1], key)) return next;
    uint32_t found = probe(self, key, hash_bytes(key))->key;
    if (found) self->next[last] = found;
    return found;
}

ex_status ex_locate(ex_keys *keys, ex_bytes record, uint32_t map, ex_bytes *slots, size_t stride) {
    ex_walk walk;
    ex_bytes key, value;
    uint32_t last = 0;
    for (size_t k = 0; k < keys->count; k++) slots[k * stride] = (ex_bytes){NULL, 0};
    ex_walk_init(&walk, record);
    for (;;) {
        ex_status status = walk_next(&walk, map, &key, &value);
        if (UNLIKELY(status)) return status;
        if (!key.data) return EX_OK;
        uint32_t found = find(keys, key, last);
        if (!found) continue;
        slots[(found - 1) * stride] = value;
        last = found;
    }
}
