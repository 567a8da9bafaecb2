#include "tensorflow/ops/op_decode.h"

#include <inttypes.h>
#include <string.h>

/* --- lists ------------------------------------------------------------------------------------ */

bool count_lists(op_decoding *all, size_t k, size_t start) {
    const op_column *each = &all->wanted->all[k];
    ex_column source = {.slots = op_tile_column(&all->tiles, start, k),
                        .records = op_tile_count(&all->tiles, start)};
    int64_t *counts = all->counts[k] + start;
    size_t row = 0;
    ex_status status = ex_count_column(&source, each->kind, counts, &row);
    for (size_t i = 0; status == EX_OK && each->layout == COLUMN_PADDED && i < source.records; i++)
        if ((size_t)counts[i] % each->width != 0) {
            status = EX_COUNT;
            row = i;
        }
    return status == EX_OK || op_decoding_fail(all, k, start, row, status);
}

/* --- one after the other: ragged and sparse ----------------------------------------------------- */

static bool read_flat(op_decoding *all, size_t k) {
    const op_column *each = &all->wanted->all[k];
    const int64_t *splits = all->counts[k];
    int64_t total = splits[all->tiles.count];
    void *to = op_output_tensor(all->call, each->output + op_layout_values(each->layout),
                                each->type, &total, 1);
    for (size_t start = 0; to != NULL && start < all->tiles.count; start += TILE) {
        ex_column source = {.slots = op_tile_column(&all->tiles, start, k),
                            .records = op_tile_count(&all->tiles, start),
                            .splits = splits + start};
        size_t row = 0;
        ex_status status =
            op_read_values(&source, each->kind, to, &all->scratch, &row, &all->call->why);
        if (status != EX_OK) return op_decoding_fail(all, k, start, row, status);
        if (all->call->why.code != TF_OK) return false;
    }
    return to != NULL;
}

static bool put_splits(op_decoding *all, const op_column *each, const int64_t *splits) {
    int64_t n = (int64_t)all->tiles.count + 1;
    bool narrow = each->layout == COLUMN_RAGGED32;
    if (narrow && splits[n - 1] > INT32_MAX)
        return fail(&all->call->why, TF_INVALID_ARGUMENT,
                    "%" PRId64 " values are too many for int32 row_splits: ask for "
                    "row_splits_dtype=tf.int64, or for smaller batches",
                    splits[n - 1]);
    void *to = op_output_tensor(all->call, each->output + 1, narrow ? TF_INT32 : TF_INT64, &n, 1);
    if (to == NULL) return false;
    if (!narrow) memcpy(to, splits, (size_t)n * sizeof *splits);
    for (int64_t i = 0; narrow && i < n; i++) ((int32_t *)to)[i] = (int32_t)splits[i];
    return true;
}

static bool put_indices(op_decoding *all, const op_column *each, const int64_t *splits,
                        int64_t most) {
    int64_t records = (int64_t)all->tiles.count;
    const int64_t dims[2] = {splits[records], 2}, two = 2;
    int64_t *at = op_output_tensor(all->call, each->output, TF_INT64, dims, 2);
    int64_t *shape =
        at != NULL ? op_output_tensor(all->call, each->output + 2, TF_INT64, &two, 1) : NULL;
    if (shape == NULL) return false;
    for (int64_t i = 0; i < records; i++)
        for (int64_t j = splits[i]; j < splits[i + 1]; j++) {
            *at++ = i;
            *at++ = j - splits[i];
        }
    shape[0] = records;
    shape[1] = most;
    return true;
}

/* --- filled up: padded -------------------------------------------------------------------------- */

static void fill(const op_column *each, char *to, size_t count) {
    size_t size = op_type_size(each->type);
    const ex_bytes *text = each->fallback;
    for (size_t i = 0; i < count; i++, to += size) {
        if (each->kind == EX_BYTES)
            tf.StringCopy((TF_TString *)(void *)to, (const char *)text->data, text->size);
        else
            memcpy(to, each->fallback, size);
    }
}

static bool read_padded_row(op_decoding *all, size_t k, size_t record, char *to, size_t room) {
    const op_column *each = &all->wanted->all[k];
    size_t start = record / TILE * TILE, row = 0;
    size_t count = (size_t)all->counts[k][record];
    const int64_t splits[2] = {0, (int64_t)count};
    ex_column source = {.slots = op_tile_column(&all->tiles, start, k) + (record - start),
                        .records = 1,
                        .splits = splits};
    ex_status status =
        op_read_values(&source, each->kind, to, &all->scratch, &row, &all->call->why);
    if (status != EX_OK) return op_decoding_fail(all, k, start, record - start, status);
    fill(each, to + count * op_type_size(each->type), room - count);
    return all->call->why.code == TF_OK;
}

static bool read_padded(op_decoding *all, size_t k) {
    const op_column *each = &all->wanted->all[k];
    int64_t dims[MAX_RANK + 2] = {(int64_t)all->tiles.count};
    int64_t most = 0;
    for (size_t i = 0; i < all->tiles.count; i++)
        most = all->counts[k][i] > most ? all->counts[k][i] : most;
    dims[1] = most / (int64_t)each->width;
    memcpy(dims + 2, each->dims, (size_t)each->rank * sizeof *dims);
    char *to = op_output_tensor(all->call, each->output, each->type, dims, each->rank + 2);
    size_t row_bytes = (size_t)most * op_type_size(each->type);
    for (size_t i = 0; to != NULL && i < all->tiles.count; i++)
        if (!read_padded_row(all, k, i, to + i * row_bytes, (size_t)most)) return false;
    return to != NULL;
}

/* ------------------------------------------------------------------------------------------------ */

bool read_lists(op_decoding *all, size_t k) {
    const op_column *each = &all->wanted->all[k];
    int64_t most = 0;
    if (each->layout == COLUMN_PADDED) return read_padded(all, k);
    op_decoding_splits(all->counts[k], all->tiles.count, &most);
    if (!read_flat(all, k)) return false;
    if (each->layout == COLUMN_SPARSE) return put_indices(all, each, all->counts[k], most);
    return put_splits(all, each, all->counts[k]);
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Steps are found first and read then, those of many records together: so many at a time. */
#ifndef STEPS /* fuzzing builds this with a small one */
#define STEPS ((size_t)1024)
#endif

bool count_steps(op_decoding *all, size_t k, size_t start) {
    const ex_bytes *lists = op_tile_column(&all->tiles, start, k);
    size_t n = op_tile_count(&all->tiles, start), count = 0;
    for (size_t i = 0; i < n; i++) {
        ex_bytes left = lists[i];
        ex_status status = ex_steps(&left, NULL, SIZE_MAX, &count);
        if (status != EX_OK) return op_decoding_fail(all, k, start, i, status);
        all->counts[k][start + i] = (int64_t)count;
    }
    return true;
}

/* --- runs of steps ------------------------------------------------------------------------------ */

typedef struct {
    op_decoding *all;
    size_t k;
    const op_column *column;
    size_t record; /* whose list comes next */
    ex_bytes left; /* of the list before it */
    size_t first;  /* number of the run's first step, of all records' */
    size_t count;  /* steps in the run */
    ex_bytes *steps;
} step_runs;

static ex_bytes list_of(const step_runs *at, size_t record) {
    size_t start = record / TILE * TILE;
    return op_tile_column(&at->all->tiles, start, at->k)[record - start];
}

static void runs_rewind(step_runs *at) {
    at->record = at->first = at->count = 0;
    at->left = (ex_bytes){NULL, 0};
}

/* The next run; false behind the last. */
static bool runs_next(step_runs *at) {
    at->first += at->count;
    at->count = 0;
    while (at->count < STEPS) {
        size_t found = 0;
        if (at->left.size == 0) {
            if (at->record == at->all->tiles.count) break;
            at->left = list_of(at, at->record++);
        }
        /* counting them has shown that they are whole */
        if (ex_steps(&at->left, at->steps + at->count, STEPS - at->count, &found) != EX_OK) break;
        at->count += found;
    }
    return at->count > 0;
}

/* Sets the fault of one of the run's steps; answers false. */
static bool runs_fail(const step_runs *at, size_t row, ex_status status) {
    const int64_t *splits = at->all->counts[at->k], step = (int64_t)(at->first + row);
    size_t record = 0;
    while (splits[record + 1] <= step) record++;
    /* a step without any list holds no values */
    *at->all->fault = (op_fault){.record = record,
                                 .column = at->column,
                                 .key = at->all->wanted->keys[at->k],
                                 .feature = at->steps[row],
                                 .status = status == EX_MISSING ? EX_COUNT : status,
                                 .in_step = true,
                                 .step = (size_t)(step - splits[record])};
    return false;
}

/* Reads the run to where `to` has its values: those of one width, or by the `splits` of all steps. */
static bool runs_read(step_runs *at, char *to, const int64_t *splits) {
    op_decoding *all = at->all;
    ex_column source = {.slots = at->steps, .records = at->count, .width = at->column->width};
    size_t row = 0;
    if (splits != NULL)
        source.splits = splits + at->first;
    else
        to += at->first * source.width * op_type_size(at->column->type);
    ex_status status =
        op_read_values(&source, at->column->kind, to, &all->scratch, &row, &all->call->why);
    if (status != EX_OK) return runs_fail(at, row, status);
    return all->call->why.code == TF_OK;
}

/* --- steps of one shape ------------------------------------------------------------------------- */

/* The first step that does not hold as many values as it must. */
static bool find_short_step(step_runs *at) {
    while (runs_next(at))
        for (size_t i = 0; i < at->count; i++) {
            size_t count = 0;
            ex_status status = ex_count(at->steps[i], at->column->kind, &count);
            if (status != EX_OK || count != at->column->width)
                return runs_fail(at, i, status != EX_OK ? status : EX_COUNT);
        }
    return true;
}

static bool read_shaped(step_runs *at, int64_t steps) {
    const op_column *each = at->column;
    int64_t dims[MAX_RANK + 1] = {steps};
    size_t given = 0;
    for (size_t i = 0; i < at->all->tiles.count; i++) given += list_of(at, i).size;
    if (!op_decoding_fits(each, (size_t)steps, given)) return find_short_step(at);
    memcpy(dims + 1, each->dims, (size_t)each->rank * sizeof *dims);
    char *to = op_output_tensor(at->all->call, each->output, each->type, dims, each->rank + 1);
    if (to == NULL) return false;
    while (runs_next(at))
        if (!runs_read(at, to, NULL)) return false;
    return true;
}

/* --- steps of their own lengths ----------------------------------------------------------------- */

/* Where the values of each step begin. NULL: it failed. */
static const int64_t *put_inner_splits(step_runs *at, int64_t steps) {
    const int64_t places = steps + 1;
    int64_t most = 0,
            *splits = op_output_tensor(at->all->call, at->column->output + 1, TF_INT64, &places, 1);
    if (splits == NULL) return NULL;
    while (runs_next(at)) {
        ex_column source = {.slots = at->steps, .records = at->count};
        size_t row = 0;
        ex_status status = ex_count_column(&source, at->column->kind, splits + at->first, &row);
        if (status != EX_OK) {
            runs_fail(at, row, status);
            return NULL;
        }
    }
    op_decoding_splits(splits, (size_t)steps, &most);
    return splits;
}

static bool read_rows(step_runs *at, int64_t steps) {
    const int64_t *splits = put_inner_splits(at, steps);
    if (splits == NULL) return false;
    char *to =
        op_output_tensor(at->all->call, at->column->output, at->column->type, &splits[steps], 1);
    if (to == NULL) return false;
    runs_rewind(at);
    while (runs_next(at))
        if (!runs_read(at, to, splits)) return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------ */

/* The last output: where the steps of each record begin. */
static bool put_step_splits(const step_runs *at) {
    const op_column *each = at->column;
    const int64_t places = (int64_t)at->all->tiles.count + 1;
    int output = each->output + op_layout_outputs(each->layout) - 1;
    void *to = op_output_tensor(at->all->call, output, TF_INT64, &places, 1);
    if (to != NULL) memcpy(to, at->all->counts[at->k], (size_t)places * sizeof(int64_t));
    return to != NULL;
}

bool read_steps(op_decoding *all, size_t k) {
    step_runs runs = {.all = all, .k = k, .column = &all->wanted->all[k]};
    int64_t most = 0, steps = op_decoding_splits(all->counts[k], all->tiles.count, &most);
    op_chunk memory = {0};
    if (!op_chunk_take(&memory, STEPS * sizeof *runs.steps, &all->call->why)) return false;
    runs.steps = memory.memory;
    bool good =
        runs.column->layout == COLUMN_ROWS ? read_rows(&runs, steps) : read_shaped(&runs, steps);
    good = good && put_step_splits(&runs);
    op_chunk_release(&memory);
    return good;
}

/* --- examples --------------------------------------------------------------------------------- */

/* --- fixed columns ------------------------------------------------------------------------------ */

/* A schema may come from a file: a width that the records can't fill gets no memory. */
static bool can_fill(const op_decoding *all, const op_column *each) {
    size_t given = 0;
    if (each->fallback != NULL) return true;
    for (size_t i = 0; i < all->tiles.count; i++) given += all->tiles.records[i].size;
    return op_decoding_fits(each, all->tiles.count, given);
}

static bool take_outputs(op_decoding *all) {
    for (size_t k = 0; k < all->wanted->count; k++) {
        const op_column *each = &all->wanted->all[k];
        int64_t dims[MAX_RANK + 1] = {(int64_t)all->tiles.count};
        if (each->layout != COLUMN_FIXED) continue;
        memcpy(dims + 1, each->dims, (size_t)each->rank * sizeof *dims);
        if (!can_fill(all, each))
            dims[0] =
                0; /* some record is at fault, and reading it says so before anything is written */
        all->values[k] =
            op_output_tensor(all->call, each->output, each->type, dims, each->rank + 1);
        if (all->values[k] == NULL) return false;
        if (dims[0] == 0) all->values[k] = NULL;
    }
    return true;
}

/* The first record that does not hold as many values as it must. */
static bool find_short(op_decoding *all, size_t k, size_t start) {
    const op_column *each = &all->wanted->all[k];
    size_t n = op_tile_count(&all->tiles, start), count = 0;
    for (size_t i = 0; i < n; i++) {
        ex_status status = ex_count(op_tile_column(&all->tiles, start, k)[i], each->kind, &count);
        if (status != EX_OK || count != each->width)
            return op_decoding_fail(all, k, start, i, status != EX_OK ? status : EX_COUNT);
    }
    return true;
}

static bool read_fixed(op_decoding *all, size_t k, size_t start) {
    const op_column *each = &all->wanted->all[k];
    if (all->values[k] == NULL) return find_short(all, k, start);
    ex_column source = {.slots = op_tile_column(&all->tiles, start, k),
                        .records = op_tile_count(&all->tiles, start),
                        .width = each->width,
                        .fallback = each->fallback};
    size_t row = 0;
    char *to = all->values[k];
    to += start * each->width * op_type_size(each->type);
    ex_status status =
        op_read_values(&source, each->kind, to, &all->scratch, &row, &all->call->why);
    if (status != EX_OK) return op_decoding_fail(all, k, start, row, status);
    return all->call->why.code == TF_OK;
}

/* --- all ---------------------------------------------------------------------------------------- */

static bool decode_tile(op_decoding *all, size_t start) {
    size_t failed = 0;
    ex_status status = op_tile_locate(&all->tiles, start, &failed);
    if (status != EX_OK) {
        *all->fault =
            (op_fault){.record = failed, .status = status, .sequence = all->tiles.lists.count > 0};
        return false;
    }
    for (size_t k = 0; k < all->wanted->count; k++) {
        op_layout layout = all->wanted->all[k].layout;
        bool good = layout == COLUMN_FIXED        ? read_fixed(all, k, start)
                    : op_layout_has_steps(layout) ? count_steps(all, k, start)
                                                  : count_lists(all, k, start);
        if (!good) return false;
    }
    return true;
}

static bool decode_tiles(op_decoding *all) {
    for (size_t start = 0; start < all->tiles.count; start += TILE)
        if (!decode_tile(all, start)) return false;
    for (size_t k = 0; k < all->wanted->count; k++) {
        op_layout layout = all->wanted->all[k].layout;
        if (layout == COLUMN_FIXED) continue;
        if (!(op_layout_has_steps(layout) ? read_steps(all, k) : read_lists(all, k))) return false;
    }
    return true;
}

/* One piece of the pool for what is noted of each column. */
static bool take_notes(op_decoding *all, op_chunk *notes) {
    size_t columns = all->wanted->count, counts = 0;
    for (size_t k = 0; k < columns; k++) counts += all->wanted->all[k].layout != COLUMN_FIXED;
    size_t records = all->tiles.count + 1;
    if (!op_chunk_take(notes, columns * 2 * sizeof(void *) + counts * records * sizeof(int64_t),
                       &all->call->why))
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

bool op_decode(op_call *call, const op_columns *wanted, const ex_bytes *records, size_t count,
               op_fault *fault) {
    op_decoding all = {.call = call, .wanted = wanted, .fault = fault};
    op_chunk notes = {0};
    *fault = (op_fault){.status = EX_OK};
    bool good = op_tiles_begin(&all.tiles, wanted, records, count, wanted->varies, &call->why) &&
                take_notes(&all, &notes) && take_outputs(&all) && decode_tiles(&all);
    op_chunk_release(&all.scratch);
    op_chunk_release(&notes);
    op_tiles_release(&all.tiles);
    return good;
}

bool op_output_rows(op_call *call, const op_columns *wanted, const ex_bytes *records, size_t count,
                    op_fault *fault) {
    if (wanted->count > 0) return op_decode(call, wanted, records, count, fault);
    *fault = (op_fault){.status = EX_OK};
    return op_output_strings(call, 0, records, count);
}

bool op_check_outputs(op_call *call, const op_columns *wanted) {
    int declared = tf.NumOutputs(call->context), made = wanted->count > 0 ? wanted->outputs : 1;
    return declared == made ||
           fail(&call->why, TF_INVALID_ARGUMENT,
                "Tout has %d types, and the columns have %d outputs", declared, made);
}
