#include "tensorflow/ops/decode.h"

#include <string.h>

#include "tensorflow/ops/lists.h"
#include "tensorflow/ops/steps.h"
#include "tensorflow/ops/values.h"

/* --- fixed columns ------------------------------------------------------------------------------ */

/* A schema may come from a file: a width that the records can't fill gets no memory. */
static bool can_fill(const batch_decoding *all, const wanted_column *each) {
    size_t given = 0;
    if (each->fallback != NULL) return true;
    for (size_t i = 0; i < all->tiles.count; i++) given += all->tiles.records[i].size;
    return decoding_fits(each, all->tiles.count, given);
}

static bool take_outputs(batch_decoding *all) {
    for (size_t k = 0; k < all->wanted->count; k++) {
        const wanted_column *each = &all->wanted->all[k];
        int64_t dims[MAX_RANK + 1] = {(int64_t)all->tiles.count};
        if (each->layout != COLUMN_FIXED) continue;
        memcpy(dims + 1, each->dims, (size_t)each->rank * sizeof *dims);
        if (!can_fill(all, each))
            dims[0] =
                0; /* some record is at fault, and reading it says so before anything is written */
        all->values[k] = output_tensor(all->now, each->output, each->type, dims, each->rank + 1);
        if (all->values[k] == NULL) return false;
        if (dims[0] == 0) all->values[k] = NULL;
    }
    return true;
}

/* The first record that does not hold as many values as it must. */
static bool find_short(batch_decoding *all, size_t k, size_t start) {
    const wanted_column *each = &all->wanted->all[k];
    size_t n = tile_count(&all->tiles, start), count = 0;
    for (size_t i = 0; i < n; i++) {
        ex_status status = ex_count(tile_column(&all->tiles, start, k)[i], each->kind, &count);
        if (status != EX_OK || count != each->width)
            return decoding_fail(all, k, start, i, status != EX_OK ? status : EX_COUNT);
    }
    return true;
}

static bool read_fixed(batch_decoding *all, size_t k, size_t start) {
    const wanted_column *each = &all->wanted->all[k];
    if (all->values[k] == NULL) return find_short(all, k, start);
    ex_column source = {.slots = tile_column(&all->tiles, start, k),
                        .records = tile_count(&all->tiles, start),
                        .width = each->width,
                        .fallback = each->fallback};
    size_t row = 0;
    char *to = all->values[k];
    to += start * each->width * type_size(each->type);
    ex_status status = read_values(&source, each->kind, to, &all->scratch, &row, &all->now->why);
    if (status != EX_OK) return decoding_fail(all, k, start, row, status);
    return all->now->why.code == TF_OK;
}

/* --- all ---------------------------------------------------------------------------------------- */

static bool decode_tile(batch_decoding *all, size_t start) {
    size_t failed = 0;
    ex_status status = tile_locate(&all->tiles, start, &failed);
    if (status != EX_OK) {
        *all->fault = (decode_fault){.record = failed,
                                     .status = status,
                                     .sequence = all->tiles.lists.count > 0};
        return false;
    }
    for (size_t k = 0; k < all->wanted->count; k++) {
        column_layout layout = all->wanted->all[k].layout;
        bool good = layout == COLUMN_FIXED     ? read_fixed(all, k, start)
                    : column_has_steps(layout) ? count_steps(all, k, start)
                                               : count_lists(all, k, start);
        if (!good) return false;
    }
    return true;
}

static bool decode_tiles(batch_decoding *all) {
    for (size_t start = 0; start < all->tiles.count; start += TILE)
        if (!decode_tile(all, start)) return false;
    for (size_t k = 0; k < all->wanted->count; k++) {
        column_layout layout = all->wanted->all[k].layout;
        if (layout == COLUMN_FIXED) continue;
        if (!(column_has_steps(layout) ? read_steps(all, k) : read_lists(all, k))) return false;
    }
    return true;
}

/* One piece of the pool for what is noted of each column. */
static bool take_notes(batch_decoding *all, chunk *notes) {
    size_t columns = all->wanted->count, counts = 0;
    for (size_t k = 0; k < columns; k++) counts += all->wanted->all[k].layout != COLUMN_FIXED;
    size_t records = all->tiles.count + 1;
    if (!chunk_take(notes, columns * 2 * sizeof(void *) + counts * records * sizeof(int64_t),
                    &all->now->why))
        return false;
    all->values = notes->memory;
    all->counts = (int64_t **)(void *)(all->values + columns);
    int64_t *next = (int64_t *)(void *)(all->counts + columns);
    for (size_t k = 0; k < columns; k++) {
        bool fixed = all->wanted->all[k].layout == COLUMN_FIXED;
        all->values[k] = NULL;
        all->counts[k] = fixed ? NULL : next;
        next += fixed ? 0 : records;
    }
    return true;
}

bool decode_examples(kernel_call *now, const column_list *wanted, const ex_bytes *records,
                     size_t count, decode_fault *fault) {
    batch_decoding all = {.now = now, .wanted = wanted, .fault = fault};
    chunk notes = {0};
    *fault = (decode_fault){.status = EX_OK};
    bool good = tiles_begin(&all.tiles, wanted, records, count, wanted->varies, &now->why) &&
                take_notes(&all, &notes) && take_outputs(&all) && decode_tiles(&all);
    chunk_release(&all.scratch);
    chunk_release(&notes);
    tiles_release(&all.tiles);
    return good;
}

bool output_rows(kernel_call *now, const column_list *wanted, const ex_bytes *records, size_t count,
                 decode_fault *fault) {
    if (wanted->count > 0) return decode_examples(now, wanted, records, count, fault);
    *fault = (decode_fault){.status = EX_OK};
    return output_strings(now, 0, records, count);
}

bool check_outputs(kernel_call *now, const column_list *wanted) {
    int declared = tf.NumOutputs(now->context), made = wanted->count > 0 ? wanted->outputs : 1;
    return declared == made ||
           fail(&now->why, TF_INVALID_ARGUMENT,
                "Tout has %d types, and the columns have %d outputs", declared, made);
}
