#include "tensorflow/ops/steps.h"

#include <string.h>

#include "tensorflow/ops/values.h"

/* Steps are found first and read then, those of many records together: so many at a time. */
#ifndef STEPS /* fuzzing builds this with a small one */
#define STEPS ((size_t)1024)
#endif

bool count_steps(batch_decoding *all, size_t k, size_t start) {
    const ex_bytes *lists = tile_column(&all->tiles, start, k);
    size_t n = tile_count(&all->tiles, start), count = 0;
    for (size_t i = 0; i < n; i++) {
        ex_bytes left = lists[i];
        ex_status status = ex_steps(&left, NULL, SIZE_MAX, &count);
        if (status != EX_OK) return decoding_fail(all, k, start, i, status);
        all->counts[k][start + i] = (int64_t)count;
    }
    return true;
}

/* --- runs of steps ------------------------------------------------------------------------------ */

typedef struct {
    batch_decoding *all;
    size_t k;
    const wanted_column *column;
    size_t record; /* whose list comes next */
    ex_bytes left; /* of the list before it */
    size_t first;  /* number of the run's first step, of all records' */
    size_t count;  /* steps in the run */
    ex_bytes *steps;
} step_runs;

static ex_bytes list_of(const step_runs *at, size_t record) {
    size_t start = record / TILE * TILE;
    return tile_column(&at->all->tiles, start, at->k)[record - start];
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
    *at->all->fault = (decode_fault){.record = record,
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
    batch_decoding *all = at->all;
    ex_column source = {.slots = at->steps, .records = at->count, .width = at->column->width};
    size_t row = 0;
    if (splits != NULL)
        source.splits = splits + at->first;
    else
        to += at->first * source.width * type_size(at->column->type);
    ex_status status =
        read_values(&source, at->column->kind, to, &all->scratch, &row, &all->now->why);
    if (status != EX_OK) return runs_fail(at, row, status);
    return all->now->why.code == TF_OK;
}

/* --- steps of one shape ------------------------------------------------------------------------- */

/* The first step that does not hold as many values as it must. */
static bool find_short(step_runs *at) {
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
    const wanted_column *each = at->column;
    int64_t dims[MAX_RANK + 1] = {steps};
    size_t given = 0;
    for (size_t i = 0; i < at->all->tiles.count; i++) given += list_of(at, i).size;
    if (!decoding_fits(each, (size_t)steps, given)) return find_short(at);
    memcpy(dims + 1, each->dims, (size_t)each->rank * sizeof *dims);
    char *to = output_tensor(at->all->now, each->output, each->type, dims, each->rank + 1);
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
            *splits = output_tensor(at->all->now, at->column->output + 1, TF_INT64, &places, 1);
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
    decoding_splits(splits, (size_t)steps, &most);
    return splits;
}

static bool read_rows(step_runs *at, int64_t steps) {
    const int64_t *splits = put_inner_splits(at, steps);
    if (splits == NULL) return false;
    char *to = output_tensor(at->all->now, at->column->output, at->column->type, &splits[steps], 1);
    if (to == NULL) return false;
    runs_rewind(at);
    while (runs_next(at))
        if (!runs_read(at, to, splits)) return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------ */

/* The last output: where the steps of each record begin. */
static bool put_splits(const step_runs *at) {
    const wanted_column *each = at->column;
    const int64_t places = (int64_t)at->all->tiles.count + 1;
    int output = each->output + column_outputs(each->layout) - 1;
    void *to = output_tensor(at->all->now, output, TF_INT64, &places, 1);
    if (to != NULL) memcpy(to, at->all->counts[at->k], (size_t)places * sizeof(int64_t));
    return to != NULL;
}

bool read_steps(batch_decoding *all, size_t k) {
    step_runs runs = {.all = all, .k = k, .column = &all->wanted->all[k]};
    int64_t most = 0, steps = decoding_splits(all->counts[k], all->tiles.count, &most);
    chunk memory = {0};
    if (!chunk_take(&memory, STEPS * sizeof *runs.steps, &all->now->why)) return false;
    runs.steps = memory.memory;
    bool good =
        runs.column->layout == COLUMN_ROWS ? read_rows(&runs, steps) : read_shaped(&runs, steps);
    good = good && put_splits(&runs);
    chunk_release(&memory);
    return good;
}
