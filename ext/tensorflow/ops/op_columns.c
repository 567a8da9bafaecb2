#include "tensorflow/ops/op_decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/bytes.h"

typedef struct {
    const uint8_t *at;
    size_t left;
} attribute_reader;

/* NULL: so many bytes are not there. */
static const uint8_t *take(attribute_reader *from, size_t size) {
    const uint8_t *taken = from->at;
    if (taken == NULL || size > from->left) return NULL;
    from->at += size;
    from->left -= size;
    return taken;
}

enum { HEAD = 8, SMALLEST_COLUMN = HEAD };

int op_layout_outputs(op_layout layout) {
    if (layout == COLUMN_SPARSE || layout == COLUMN_ROWS) return 3;
    return layout == COLUMN_FIXED || layout == COLUMN_PADDED ? 1 : 2;
}

int op_layout_values(op_layout layout) { return layout == COLUMN_SPARSE ? 1 : 0; }

bool op_layout_has_steps(op_layout layout) {
    return layout == COLUMN_STEPS || layout == COLUMN_ROWS;
}

static TF_DataType type_of(ex_kind kind) {
    return kind == EX_BYTES ? TF_STRING : kind == EX_FLOAT ? TF_FLOAT : TF_INT64;
}

/* --- one column --------------------------------------------------------------------------------- */

/* The fallback in memory that is aligned for its type. */
static bool parse_fallback(op_column *each, attribute_reader *from) {
    size_t count = each->layout == COLUMN_PADDED ? 1 : each->width;
    if (count > from->left) /* each takes a byte at least */
        return false;
    void *values = calloc(count + 1, sizeof(ex_bytes));
    each->fallback = values;
    if (values == NULL) return false;
    if (each->kind != EX_BYTES) {
        size_t nbytes = count * op_type_size(each->type);
        const uint8_t *bytes = take(from, nbytes);
        if (bytes != NULL) memcpy(values, bytes, nbytes);
        return bytes != NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const uint8_t *size = take(from, sizeof(uint32_t));
        const uint8_t *bytes = size != NULL ? take(from, load32(size)) : NULL;
        if (bytes == NULL) return false;
        ((ex_bytes *)values)[i] = (ex_bytes){bytes, load32(size)};
    }
    return true;
}

static bool parse_dims(op_column *each, attribute_reader *from) {
    each->width = 1;
    for (int i = 0; i < each->rank; i++) {
        const uint8_t *dim = take(from, sizeof(int64_t));
        if (dim == NULL) return false;
        each->dims[i] = (int64_t)load64(dim);
        if (each->dims[i] < 0 ||
            __builtin_mul_overflow(each->width, (size_t)each->dims[i], &each->width) ||
            each->width > PTRDIFF_MAX / sizeof(TF_TString))
            return false;
    }
    return true;
}

static bool parse_column(op_column *each, ex_bytes *key, attribute_reader *from) {
    const uint8_t *head = take(from, HEAD);
    if (head == NULL || head[0] < EX_BYTES || head[0] > EX_INT64 || head[1] >= COLUMN_LAYOUTS ||
        head[2] > MAX_RANK)
        return false;
    each->kind = (ex_kind)head[0];
    each->type = type_of(each->kind);
    each->layout = (op_layout)head[1];
    each->rank = head[2];
    bool padded = each->layout == COLUMN_PADDED;
    if (!parse_dims(each, from) || (padded && (each->width == 0 || head[3] == 0))) return false;
    size_t size = load32(head + 4);
    const uint8_t *name = take(from, size);
    *key = (ex_bytes){name, size};
    return name != NULL && (head[3] == 0 || parse_fallback(each, from));
}

/* --- all ---------------------------------------------------------------------------------------- */

static bool parse_all(op_columns *of, attribute_reader *from) {
    while (from->left > 0) {
        op_column *each = &of->all[of->count];
        if (!parse_column(each, &of->keys[of->count++], from)) return false;
        bool steps = op_layout_has_steps(each->layout);
        if (steps ? each->fallback != NULL || each->width == 0 : of->features + 1 < of->count)
            return false;
        of->features += !steps;
        each->output = of->outputs;
        of->outputs += op_layout_outputs(each->layout);
        of->varies |= each->layout != COLUMN_FIXED;
    }
    return true;
}

static bool find_keys(ex_keys *found, const ex_bytes *keys, size_t count) {
    ex_key_slot *table = malloc(ex_table_size(count) * sizeof *table);
    uint32_t *next = malloc((count + 1) * sizeof *next);
    if (table != NULL && next != NULL)
        ex_keys_init(found, keys, count, table, next);
    else
        free(table);
    free(next); /* each call has its own */
    found->next = NULL;
    return found->table != NULL;
}

static bool find_all_keys(op_columns *of) {
    return find_keys(&of->found, of->keys, of->features) &&
           find_keys(&of->found_lists, of->keys + of->features, of->count - of->features);
}

bool op_columns_parse(op_columns *of, char *text, size_t size, failure *why) {
    size_t most = size / SMALLEST_COLUMN + 1;
    *of = (op_columns){.text = text};
    of->all = calloc(most, sizeof *of->all);
    of->keys = calloc(most, sizeof *of->keys);
    if (of->all == NULL || of->keys == NULL)
        return fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
    attribute_reader from = {(const uint8_t *)text, size};
    if (!parse_all(of, &from))
        return fail(why, TF_INVALID_ARGUMENT, "the attribute `columns` makes no sense");
    return find_all_keys(of) || fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
}

void op_columns_attribute(op_columns *of, TF_OpKernelConstruction *context, TF_Status *status) {
    size_t size = 0;
    failure why = {TF_OK, ""};
    char *text = op_text_attribute(context, "columns", &size, status);
    if (tf.GetCode(status) != TF_OK)
        free(text);
    else if (!op_columns_parse(of, text, size, &why))
        tf.SetStatus(status, why.code, why.message);
}

void op_columns_release(op_columns *of) {
    for (size_t i = 0; i < of->count; i++) free((void *)of->all[i].fallback);
    free(of->found.table);
    free(of->found_lists.table);
    free(of->all);
    free(of->keys);
    free(of->text);
    *of = (op_columns){0};
}

/* --- tiles ------------------------------------------------------------------------------------ */

enum {
    AHEAD =
        8, /* records that are called into the cache before their turn: they come in any order */
    LINE = 64,   /* bytes of a cache line */
    PADDING = 12 /* columns a power of two apart would share the same few sets of the cache */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

bool op_tiles_begin(op_tiles *of, const op_columns *wanted, const ex_bytes *records, size_t count,
                    bool all, failure *why) {
    /* what key came behind which: of each map for itself */
    size_t slots = 0, order = (wanted->count + 2) * sizeof(uint32_t), nbytes = 0;
    *of = (op_tiles){.records = records,
                     .count = count,
                     .columns = wanted->count,
                     .features = wanted->found,
                     .lists = wanted->found_lists};
    of->stride = least(count, TILE) + PADDING;
    of->kept = all ? (count + TILE - 1) / TILE : 1;
    if (__builtin_mul_overflow(of->stride * of->kept, of->columns, &slots) ||
        __builtin_mul_overflow(slots, sizeof(ex_bytes), &nbytes))
        return fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
    if (!op_chunk_take(&of->memory, nbytes + order, why)) return false;
    of->slots = of->memory.memory;
    of->features.next = (uint32_t *)(void *)(of->slots + slots);
    of->lists.next = of->features.next + wanted->features + 1;
    memset(of->features.next, 0, order);
    return true;
}

void op_tiles_release(op_tiles *of) { op_chunk_release(&of->memory); }

size_t op_tile_count(const op_tiles *of, size_t start) { return least(of->count - start, TILE); }

static ex_bytes *column_slots(const op_tiles *of, size_t start, size_t k) {
    size_t tile = of->kept > 1 ? start / TILE : 0;
    return of->slots + (tile * of->columns + k) * of->stride;
}

const ex_bytes *op_tile_column(const op_tiles *of, size_t start, size_t k) {
    return column_slots(of, start, k);
}

/* Of one record: both maps of a SequenceExample, and the one of an Example. */
static ex_status locate(op_tiles *of, ex_bytes record, ex_bytes *slots) {
    ex_status status = ex_locate(&of->features, record, EX_FEATURES, slots, of->stride);
    if (status != EX_OK || of->lists.count == 0) return status;
    slots += of->features.count * of->stride;
    return ex_locate(&of->lists, record, EX_FEATURE_LISTS, slots, of->stride);
}

ex_status op_tile_locate(op_tiles *of, size_t start, size_t *failed) {
    ex_bytes *slots = column_slots(of, start, 0);
    size_t n = op_tile_count(of, start);
    for (size_t i = 0; i < n; i++) {
        if (start + i + AHEAD < of->count) {
            const uint8_t *later = of->records[start + i + AHEAD].data;
            __builtin_prefetch(later);
            __builtin_prefetch(later + LINE);
            __builtin_prefetch(later + 2 * LINE);
        }
        ex_status status = locate(of, of->records[start + i], slots + i);
        if (status != EX_OK) {
            *failed = start + i;
            return status;
        }
    }
    return EX_OK;
}

/* --- values ----------------------------------------------------------------------------------- */

/* Strings are found first and copied then: so many at a time. */
#ifndef STRINGS /* fuzzing builds this with a small one */
#define STRINGS ((size_t)1024)
#endif

static bool reserve(op_chunk *scratch, size_t strings, failure *why) {
    size_t nbytes = strings * sizeof(ex_bytes);
    if (scratch->memory != NULL && scratch->size >= nbytes) return true;
    op_chunk_release(scratch);
    return op_chunk_take(scratch, nbytes, why);
}

/* One or more records; `room` is what they hold together. */
static ex_status read_strings(const ex_column *some, size_t room, TF_TString *to, op_chunk *scratch,
                              size_t *failed, failure *why) {
    if (!reserve(scratch, room, why)) return EX_OK;
    ex_bytes *found = scratch->memory;
    ex_status status = ex_read_bytes(some, found, failed);
    if (status == EX_OK) op_strings_copy(found, room, to);
    return status;
}

/* Rows of the same width: as many at a time as fill the scratch. */
static ex_status read_rows(const ex_column *source, TF_TString *to, op_chunk *scratch,
                           size_t *failed, failure *why) {
    size_t step = source->width > 0 && source->width < STRINGS ? STRINGS / source->width : 1;
    if (source->width == 0) step = source->records;
    for (size_t i = 0; i < source->records && why->code == TF_OK; i += step) {
        ex_column some = *source;
        some.slots += i;
        some.records = source->records - i < step ? source->records - i : step;
        ex_status status = read_strings(&some, some.records * source->width, to + i * source->width,
                                        scratch, failed, why);
        if (status != EX_OK) {
            *failed += i;
            return status;
        }
    }
    return EX_OK;
}

/* Rows of their own lengths, one by one: what they hold together has no bound. */
static ex_status read_each(const ex_column *source, TF_TString *to, op_chunk *scratch,
                           size_t *failed, failure *why) {
    for (size_t i = 0; i < source->records && why->code == TF_OK; i++) {
        size_t count = (size_t)(source->splits[i + 1] - source->splits[i]);
        int64_t splits[2] = {0, (int64_t)count};
        ex_column one = {.slots = source->slots + i, .records = 1, .splits = splits};
        ex_status status = read_strings(&one, count, to + source->splits[i], scratch, failed, why);
        if (status != EX_OK) {
            *failed = i;
            return status;
        }
    }
    return EX_OK;
}

ex_status op_read_values(const ex_column *source, ex_kind kind, void *to, op_chunk *scratch,
                         size_t *failed, failure *why) {
    if (kind == EX_FLOAT) return ex_read_floats(source, to, failed);
    if (kind == EX_INT64) return ex_read_int64s(source, to, failed);
    return source->splits != NULL ? read_each(source, to, scratch, failed, why)
                                  : read_rows(source, to, scratch, failed, why);
}

/* --- what is wrong ---------------------------------------------------------------------------- */

static const char *const KINDS[] = {"no", "bytes", "float", "int64"};

/* What the fault is in: "feature 'x'", and the step of a feature list. */
static void name_feature(const op_fault *fault, char *name, size_t room) {
    int size = (int)(fault->key.size < 512 ? fault->key.size : 512);
    int used = snprintf(name, room, "feature '%.*s'", size, (const char *)fault->key.data);
    if (fault->in_step && used > 0 && (size_t)used < room)
        snprintf(name + used, room - (size_t)used, ", step %zu,", fault->step);
}

bool op_fault_fail(const op_fault *fault, const char *place, failure *why) {
    if (fault->status == EX_OK) return false;
    ex_kind found = EX_NO_KIND;
    size_t count = 0;
    char name[600];
    if (fault->column == NULL)
        return fail(why, TF_INVALID_ARGUMENT, "%s is not a tf.train.%s: %s", place,
                    fault->sequence ? "SequenceExample" : "Example", ex_reason(fault->status));
    name_feature(fault, name, sizeof name);
    if (fault->status == EX_MISSING)
        return fail(why, TF_INVALID_ARGUMENT,
                    "%s: %s (%s) is required and is missing: give it a default, or take "
                    "a feature that may be missing",
                    place, name, KINDS[fault->column->kind]);
    if (fault->status == EX_KIND) {
        ex_kind_of(fault->feature, &found);
        return fail(why, TF_INVALID_ARGUMENT, "%s: %s holds %s values, not %s ones", place, name,
                    KINDS[found], KINDS[fault->column->kind]);
    }
    if (fault->status == EX_COUNT) {
        ex_count(fault->feature, fault->column->kind, &count);
        return fail(why, TF_INVALID_ARGUMENT, "%s: %s holds %zu values, not %s%zu", place, name,
                    count, fault->column->layout == COLUMN_PADDED ? "a multiple of " : "",
                    fault->column->width);
    }
    return fail(why, TF_INVALID_ARGUMENT, "%s: %s can't be read: %s", place, name,
                ex_reason(fault->status));
}

/* --- a batch ---------------------------------------------------------------------------------- */

bool op_decoding_fail(op_decoding *all, size_t k, size_t start, size_t row, ex_status status) {
    *all->fault = (op_fault){.record = start + row,
                             .column = &all->wanted->all[k],
                             .key = all->wanted->keys[k],
                             .feature = op_tile_column(&all->tiles, start, k)[row],
                             .status = status};
    return false;
}

bool op_decoding_fits(const op_column *each, size_t rows, size_t nbytes) {
    size_t least = each->kind == EX_FLOAT ? 4 : each->kind == EX_BYTES ? 2 : 1, wanted = 0;
    return !__builtin_mul_overflow(each->width, rows, &wanted) &&
           !__builtin_mul_overflow(wanted, least, &wanted) && wanted <= nbytes;
}

int64_t op_decoding_splits(int64_t *counts, size_t rows, int64_t *most) {
    int64_t total = 0;
    *most = 0;
    for (size_t i = 0; i < rows; i++) {
        int64_t count = counts[i];
        *most = count > *most ? count : *most;
        counts[i] = total;
        total += count;
    }
    counts[rows] = total;
    return total;
}
