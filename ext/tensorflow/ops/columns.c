#include "tensorflow/ops/columns.h"

#include <stdlib.h>
#include <string.h>

#include "memory/bytes.h"
#include "tensorflow/call.h"

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

int column_outputs(column_layout layout) {
    if (layout == COLUMN_SPARSE || layout == COLUMN_ROWS) return 3;
    return layout == COLUMN_FIXED || layout == COLUMN_PADDED ? 1 : 2;
}

int column_values(column_layout layout) { return layout == COLUMN_SPARSE ? 1 : 0; }

bool column_has_steps(column_layout layout) {
    return layout == COLUMN_STEPS || layout == COLUMN_ROWS;
}

static TF_DataType type_of(ex_kind kind) {
    return kind == EX_BYTES ? TF_STRING : kind == EX_FLOAT ? TF_FLOAT : TF_INT64;
}

/* --- one column --------------------------------------------------------------------------------- */

/* The fallback in memory that is aligned for its type. */
static bool parse_fallback(wanted_column *each, attribute_reader *from) {
    size_t count = each->layout == COLUMN_PADDED ? 1 : each->width;
    if (count > from->left) /* each takes a byte at least */
        return false;
    void *values = calloc(count + 1, sizeof(ex_bytes));
    each->fallback = values;
    if (values == NULL) return false;
    if (each->kind != EX_BYTES) {
        size_t nbytes = count * type_size(each->type);
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

static bool parse_dims(wanted_column *each, attribute_reader *from) {
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

static bool parse_column(wanted_column *each, ex_bytes *key, attribute_reader *from) {
    const uint8_t *head = take(from, HEAD);
    if (head == NULL || head[0] < EX_BYTES || head[0] > EX_INT64 || head[1] >= COLUMN_LAYOUTS ||
        head[2] > MAX_RANK)
        return false;
    each->kind = (ex_kind)head[0];
    each->type = type_of(each->kind);
    each->layout = (column_layout)head[1];
    each->rank = head[2];
    bool padded = each->layout == COLUMN_PADDED;
    if (!parse_dims(each, from) || (padded && (each->width == 0 || head[3] == 0))) return false;
    size_t size = load32(head + 4);
    const uint8_t *name = take(from, size);
    *key = (ex_bytes){name, size};
    return name != NULL && (head[3] == 0 || parse_fallback(each, from));
}

/* --- all ---------------------------------------------------------------------------------------- */

static bool parse_all(column_list *of, attribute_reader *from) {
    while (from->left > 0) {
        wanted_column *each = &of->all[of->count];
        if (!parse_column(each, &of->keys[of->count++], from)) return false;
        bool steps = column_has_steps(each->layout);
        if (steps ? each->fallback != NULL || each->width == 0 : of->features + 1 < of->count)
            return false;
        of->features += !steps;
        each->output = of->outputs;
        of->outputs += column_outputs(each->layout);
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

static bool find_all_keys(column_list *of) {
    return find_keys(&of->found, of->keys, of->features) &&
           find_keys(&of->found_lists, of->keys + of->features, of->count - of->features);
}

bool columns_parse(column_list *of, char *text, size_t size, failure *why) {
    size_t most = size / SMALLEST_COLUMN + 1;
    *of = (column_list){.text = text};
    of->all = calloc(most, sizeof *of->all);
    of->keys = calloc(most, sizeof *of->keys);
    if (of->all == NULL || of->keys == NULL)
        return fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
    attribute_reader from = {(const uint8_t *)text, size};
    if (!parse_all(of, &from))
        return fail(why, TF_INVALID_ARGUMENT, "the attribute `columns` makes no sense");
    return find_all_keys(of) || fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
}

void columns_release(column_list *of) {
    for (size_t i = 0; i < of->count; i++) free((void *)of->all[i].fallback);
    free(of->found.table);
    free(of->found_lists.table);
    free(of->all);
    free(of->keys);
    free(of->text);
    *of = (column_list){0};
}
