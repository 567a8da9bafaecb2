#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/ops/op_decode.h"
#include "tensorflow/ops/op_held.h"
#include "tensorflow/ops/op_window.h"
#include "tfrecord/tfrecord.h"

/* --- strings of records ----------------------------------------------------------------------- */

/* TfioStoreReadBlocks, TfioStoreBeginBlocks and TfioStoreAwaitBlocks. */

enum { SEED_INPUT = REQUEST_INPUT_COUNT, READ_INPUT_COUNT };
enum { ATTEMPT = REQUEST_INPUT_COUNT, AWAIT_INPUT_COUNT };

/* --- all spans ---------------------------------------------------------------------------------- */

typedef struct {
    size_t lanes;
    size_t *bounds; /* of the lanes, in `runs` */
    op_run *runs;
    size_t run_count; /* of the spans begun so far */
    bool *broken;     /* lanes … */
    failure *why;     /* … and what is wrong behind their good records */
} blocks_reading;

static void reading_release(blocks_reading *all) {
    for (size_t i = 0; i < all->run_count; i++) op_run_release(&all->runs[i]);
    free(all->bounds);
    free(all->runs);
    free(all->broken);
    free(all->why);
}

static bool count_span(op_call *call, const op_request *asked, const op_span *span, void *state) {
    size_t *spans = state;
    (void)call, (void)asked, (void)span;
    (*spans)++;
    return true;
}

/* Room for what the call asks for. Groups without lanes are one, all together. */
static bool reading_begin(op_call *call, const op_request *asked, blocks_reading *all) {
    size_t spans = 0;
    all->lanes = asked->lanes > 0 ? (size_t)asked->lanes : 1;
    if (asked->lanes > 0 && asked->wanted_rows > 1)
        return fail(&call->why, TF_INVALID_ARGUMENT, "groups of lanes are wanted one by one");
    if (!op_each_span(call, asked, count_span, &spans)) return false;
    all->bounds = calloc(all->lanes + 1, sizeof *all->bounds);
    all->runs = calloc(spans + 1, sizeof *all->runs);
    all->broken = calloc(all->lanes, sizeof *all->broken);
    all->why = calloc(all->lanes, sizeof *all->why);
    return (all->bounds && all->runs && all->broken && all->why) ||
           fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory");
}

/* False, with call->why: what is behind the damage is not read. */
static bool read_spans(op_call *call, const op_request *asked, blocks_reading *all, int64_t first,
                       int64_t last) {
    for (int64_t s = first; s < last; s++)
        if (!op_run_read(call, asked, &asked->spans[s], &all->runs[all->run_count++])) return false;
    return true;
}

/* False: the call fails. With `partial`, damage ends only the lane that has it. */
static bool read_lanes(op_call *call, const op_request *asked, blocks_reading *all) {
    for (int64_t i = 0; i < asked->wanted_rows; i++) {
        size_t lanes = 0;
        const int64_t group = op_wanted_group(asked, i);
        if (group < 0) continue;
        const int64_t *bounds = op_group_lanes(asked, group, &lanes);
        for (size_t lane = 0; lane < lanes && !all->broken[lane]; lane++) {
            if (!read_spans(call, asked, all, bounds[lane], bounds[lane + 1])) {
                if (!asked->settings->partial) return false;
                all->broken[lane] = true;
                all->why[lane] = call->why;
                call->why.code = TF_OK;
            }
            all->bounds[lane + 1] = all->run_count;
        }
    }
    return true;
}

/* The records as far as they are good, whose bytes `all` holds; with `partial`, damage behind some of
 * them goes to `late`. NULL: the call fails. */
static op_records *read_all(op_call *call, const op_request *asked, blocks_reading *all,
                            failure *late) {
    size_t stopped = all->lanes;
    if (!read_lanes(call, asked, all)) return NULL;
    op_records *records =
        op_runs_join(all->runs, all->bounds, all->lanes, all->broken, &stopped, &call->why);
    if (records == NULL || stopped == all->lanes) return records;
    *(op_records_count(records) > 0 ? late : &call->why) = all->why[stopped];
    return records;
}

/* The records, shuffled if there is a seed, and what is wrong behind them. */
static void output_read(op_call *call, op_records *records, const int64_t *seed,
                        const failure *late) {
    if (seed != NULL) op_records_shuffle(records, (uint64_t)*seed);
    if (op_output_records(call, 0, records)) op_output_error(call, 1, late);
}

/* --- span by span ------------------------------------------------------------------------------- */

typedef struct {
    int64_t expected; /* records that have still to come */
    bool raw;         /* all of them lie in local files, which are as long as their blocks claim */
    TF_TString *strings; /* from the next record on */
} spans_copying;

static bool expect_span(op_call *call, const op_request *asked, const op_span *span, void *state) {
    spans_copying *all = state;
    op_named_block named;
    if (!op_input_block(call, asked, span, &named)) return false;
    all->raw = all->raw && op_is_raw_local(named.url, named.codec, asked->settings);
    return op_add_claim(call, &all->expected, op_span_records(asked, span));
}

static bool copy_span(op_call *call, const op_request *asked, const op_span *span, void *state) {
    spans_copying *all = state;
    op_run next = {0};
    const bool good = op_run_read(call, asked, span, &next);
    const bool fits = good && next.found.count <= (size_t)all->expected;
    if (fits) {
        op_part_copy(&next.found, all->strings);
        all->strings += next.found.count;
        all->expected -= (int64_t)next.found.count;
    }
    op_run_release(&next);
    return fits || !good || fail(&call->why, TF_INTERNAL, "more records came than were announced");
}

/* Where all or nothing is wanted of raw local files, in the order of the spans, each span is copied
 * while it lies in the processor's cache, and the next one is read into the same memory. False: it is
 * not so, and nothing was done. */
static bool copy_spans(op_call *call, const op_request *asked, const int64_t *seed) {
    const op_settings *settings = asked->settings;
    spans_copying all = {.raw = true};
    failure none;
    none.code = TF_OK;
    if (asked->lanes > 0 || settings->partial || settings->skip_corrupt || seed != NULL)
        return false;
    if (!op_each_span(call, asked, expect_span, &all)) return true;
    if (!all.raw) return false;
    all.strings = op_output_tensor(call, 0, TF_STRING, &all.expected, 1);
    if (all.strings != NULL && op_each_span(call, asked, copy_span, &all))
        op_output_error(call, 1, &none);
    return true;
}

/* ------------------------------------------------------------------------------------------------ */

void op_read_blocks(void *kernel, TF_OpKernelContext *context) {
    op_call call;
    op_request asked;
    blocks_reading all = {0};
    const int64_t *seed = NULL;
    failure late;
    late.code = TF_OK;
    if (op_call_begin(&call, context, READ_INPUT_COUNT) &&
        op_input_request(&call, kernel, &asked) && op_input_option(&call, SEED_INPUT, &seed) &&
        op_check_marks(&call, &asked, asked.wanted_rows) && !copy_spans(&call, &asked, seed) &&
        reading_begin(&call, &asked, &all)) {
        op_records *records = read_all(&call, &asked, &all, &late);
        if (call.why.code == TF_OK) output_read(&call, records, seed, &late);
        op_records_delete(records);
    }
    reading_release(&all);
    op_call_end(&call);
}

/* --- begin -------------------------------------------------------------------------------------- */

static bool begin_span(op_call *call, const op_request *asked, const op_span *span, void *state) {
    (void)state;
    op_named_block named;
    if (!op_input_block(call, asked, span, &named)) return false;
    if (!op_is_raw_local(named.url, named.codec, asked->settings)) op_lent_begin(&named.block);
    return true;
}

void op_begin_blocks(void *kernel, TF_OpKernelContext *context) {
    op_call call;
    op_request asked;
    if (op_call_begin(&call, context, REQUEST_INPUT_COUNT) &&
        op_input_request(&call, kernel, &asked) &&
        op_check_marks(&call, &asked, asked.wanted_rows) &&
        op_each_span(&call, &asked, begin_span, NULL)) {
        bool scalar = op_input_is_scalar(&call, WANTED);
        int64_t *same = op_output_numbers(&call, 0, scalar ? -1 : asked.wanted_rows);
        if (same != NULL) memcpy(same, asked.wanted, (size_t)asked.wanted_rows * sizeof *same);
    }
    op_call_end(&call);
}

/* --- await -------------------------------------------------------------------------------------- */

static bool await_span(op_call *call, const op_request *asked, const op_span *span, void *state) {
    (void)state;
    op_named_block named;
    if (!op_input_block(call, asked, span, &named)) return false;
    return op_is_raw_local(named.url, named.codec, asked->settings) || op_lent_await(&named.block);
}

void op_await_blocks(void *kernel, TF_OpKernelContext *context) {
    op_call call;
    op_request asked;
    const int64_t *attempt = NULL;
    if (op_call_begin(&call, context, AWAIT_INPUT_COUNT) &&
        op_input_request(&call, kernel, &asked) &&
        op_check_marks(&call, &asked, asked.wanted_rows) &&
        op_input_numbers(&call, ATTEMPT, 1, &attempt)) {
        const bool here = op_each_span(&call, &asked, await_span, NULL);
        int64_t *again = call.why.code == TF_OK ? op_output_numbers(&call, 0, -1) : NULL;
        if (again != NULL) *again = here ? -1 : (int64_t)(((uint64_t)attempt[0] + 1) & INT64_MAX);
    }
    op_call_end(&call);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* TfioStoreReadExamples and TfioStoreReadPicked: one batch, from the blocks to the tensors that a
 * training step takes. The records of the second are those that TfioStorePickRecords has picked.
 *
 * `wanted` is the number of a group, whose records are the batch; or group, batch and seed: then the
 * group is a window, its records are shuffled by the seed, and the batch is the n-th run of `batch_size`
 * records of it. A negative group is the end: OUT_OF_RANGE.
 */

typedef struct {
    op_settings *settings;
    int64_t batch_size;
    op_columns columns; /* none: records as they are */
    op_windows *shared;
    op_held *held;
} examples_kernel;

/* --- the kernel --------------------------------------------------------------------------------- */

void op_examples_delete(void *kernel) {
    examples_kernel *of = kernel;
    if (of == NULL) return;
    op_settings_delete(of->settings);
    op_columns_release(&of->columns);
    op_windows_delete(of->shared);
    op_held_delete(of->held);
    free(of);
}

static void examples_fill(examples_kernel *of, TF_OpKernelConstruction *context,
                          TF_Status *status) {
    of->shared = op_windows_new();
    of->held = op_held_new();
    of->batch_size = (int64_t)op_size_attribute(context, "batch_size", status);
    op_columns_attribute(&of->columns, context, status);
    if (tf.GetCode(status) != TF_OK) return;
    if (of->shared == NULL || of->held == NULL)
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    else if (of->batch_size < 1)
        tf.SetStatus(status, TF_INVALID_ARGUMENT, "batch_size takes 1 or more records");
    else if (of->settings->skip_corrupt) /* then nobody knows which records a batch has */
        tf.SetStatus(status, TF_INVALID_ARGUMENT,
                     "skip_corrupt is not for batches of known records");
}

void *op_examples_new(TF_OpKernelConstruction *context) {
    op_lent_forget(); /* a kernel is made when an iterator is */
    op_settings *settings = op_settings_new(context);
    if (settings == NULL) return NULL; /* which was told */
    TF_Status *status = tf.NewStatus();
    examples_kernel *of = calloc(1, sizeof *of);
    if (of != NULL) {
        of->settings = settings;
        examples_fill(of, context, status);
    } else {
        op_settings_delete(settings);
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    }
    return op_kernel_made(context, status, of, op_examples_delete);
}

/* --- outputs ------------------------------------------------------------------------------------ */

/* Which record of which file does not parse. */
static void fail_record(op_call *call, const op_request *asked, const op_window *of,
                        const uint8_t *record, const op_fault *fault) {
    const op_span *span = NULL;
    int64_t offset = 0;
    op_named_block named;
    char place[MAX_NAME + 64] = "a record";
    if (op_window_place(of, call, asked, record, &span, &offset) &&
        op_input_block(call, asked, span, &named))
        snprintf(place, sizeof place, "%s: the record at offset %" PRId64, named.url, offset);
    op_fault_fail(fault, place, &call->why);
}

static void output_records_of(op_call *call, const examples_kernel *of, const op_request *asked,
                              const op_window *from, size_t first, size_t count) {
    const ex_bytes *records = op_records_all(op_window_records(from)) + first;
    op_fault fault;
    if (!op_output_rows(call, &of->columns, records, count, &fault) && fault.status != EX_OK)
        fail_record(call, asked, from, records[fault.record].data, &fault);
}

/* Records [first, last) of those that the window announces. */
static void output_batch(op_call *call, const examples_kernel *of, const op_request *asked,
                         const op_window *from, int64_t first, int64_t last) {
    const op_records *good = op_window_records(from);
    int64_t count = good != NULL ? (int64_t)op_records_count(good) : 0;
    if (last > count || good == NULL)
        call->why = *op_window_damage(from);
    else
        output_records_of(call, of, asked, from, (size_t)first, (size_t)(last - first));
}

/* --- the op ------------------------------------------------------------------------------------- */

static void read_group(op_call *call, const examples_kernel *of, const op_request *asked) {
    op_window *whole = op_window_new(call, asked, op_wanted_group(asked, WANTED_GROUP));
    if (whole == NULL) return;
    op_window_read(whole, call, asked, NULL);
    output_batch(call, of, asked, whole, 0, op_window_expected(whole));
    op_window_delete(whole);
}

static void read_shuffled(op_call *call, const examples_kernel *of, const op_request *asked) {
    int64_t group = op_wanted_group(asked, WANTED_GROUP), batch = asked->wanted[WANTED_BATCH],
            first = 0;
    uint64_t seed = (uint64_t)asked->wanted[WANTED_SEED];
    op_shared_window *held = op_windows_take(of->shared, call, asked, group, seed, of->batch_size);
    if (held == NULL) return;
    op_window *from = op_windows_window(held);
    int64_t expected = op_window_expected(from);
    if (batch < 0 || __builtin_mul_overflow(batch, of->batch_size, &first) || first >= expected) {
        fail(&call->why, TF_INVALID_ARGUMENT, "group %" PRId64 " has no batch %" PRId64, group,
             batch);
    } else {
        op_window_read(from, call, asked, &seed);
        int64_t left = expected - first;
        output_batch(call, of, asked, from, first,
                     first + (left < of->batch_size ? left : of->batch_size));
    }
    op_windows_give(of->shared, held);
}

/* What the calls of both kernels begin with; false ends them. A negative number is the end. */
static bool begin_batch(op_call *call, TF_OpKernelContext *context, const examples_kernel *of,
                        op_request *asked) {
    return op_call_begin(call, context, REQUEST_INPUT_COUNT) &&
           op_check_outputs(call, &of->columns) && op_input_request(call, of->settings, asked) &&
           op_check_marks(call, asked, asked->wanted_rows > 0) &&
           (asked->wanted_rows == 0 || asked->wanted[0] >= 0 ||
            fail(&call->why, TF_OUT_OF_RANGE, "the end"));
}

void op_read_examples(void *kernel, TF_OpKernelContext *context) {
    const examples_kernel *of = kernel;
    op_call call;
    op_request asked;
    if (begin_batch(&call, context, of, &asked)) {
        if (asked.wanted_rows == 1)
            read_group(&call, of, &asked);
        else if (asked.wanted_rows == WANTED_COUNT)
            read_shuffled(&call, of, &asked);
        else
            fail(&call.why, TF_INVALID_ARGUMENT, "wanted is not [group, batch, seed]");
    }
    op_call_end(&call);
}

/* --- TfioStoreReadPicked ------------------------------------------------------------------------ */

enum { PICKED_EPOCH = 1, PICKED }; /* behind the batch */

/* Which record does not parse: where it lies is found by reading its block once more. */
static void fail_picked(op_call *call, const op_request *asked, int64_t pick,
                        const op_fault *fault) {
    const int64_t block = pick >> 32;
    const op_span whole = {block, 0, asked->table[block].records};
    op_run run = {0};
    op_named_block named;
    char place[MAX_NAME + 64];
    if (op_input_block(call, asked, &whole, &named) && op_run_read(call, asked, &whole, &run) &&
        (size_t)(pick & UINT32_MAX) < run.found.count) {
        const int64_t offset =
            asked->table[block].raw_start + run.found.offsets[pick & UINT32_MAX] - TFRECORD_HEADER;
        snprintf(place, sizeof place, "%s: the record at offset %" PRId64, named.url, offset);
        op_fault_fail(fault, place, &call->why);
    }
    op_run_release(&run);
}

/* A last batch may have fewer records than there is room for. */
static size_t picked_count(const op_request *asked) {
    size_t count = 0;
    while ((int64_t)count < asked->wanted_rows - PICKED && asked->wanted[PICKED + count] >= 0)
        count++;
    return count;
}

static void read_picks(op_call *call, const examples_kernel *of, const op_request *asked) {
    const int64_t *picks = asked->wanted + PICKED;
    const size_t count = picked_count(asked);
    op_held_picks *taken =
        op_held_take(of->held, call, asked, asked->wanted[PICKED_EPOCH], picks, count);
    op_fault fault;
    if (taken != NULL &&
        !op_output_rows(call, &of->columns, op_held_records(taken), count, &fault) &&
        fault.status != EX_OK)
        fail_picked(call, asked, picks[fault.record], &fault);
    op_held_give(taken);
}

void op_read_picked(void *kernel, TF_OpKernelContext *context) {
    const examples_kernel *of = kernel;
    op_call call;
    op_request asked;
    if (begin_batch(&call, context, of, &asked)) {
        if (asked.wanted_rows > PICKED)
            read_picks(&call, of, &asked);
        else
            fail(&call.why, TF_INVALID_ARGUMENT, "wanted is not [batch, epoch, records]");
    }
    op_call_end(&call);
}
