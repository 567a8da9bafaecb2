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
    const read_settings *settings;
    size_t lanes;
    size_t *bounds; /* of the lanes, in `runs` */
    span_run *runs;
    size_t run_count; /* of the spans begun so far */
    bool *broken;     /* lanes … */
    failure *why;     /* … and what is wrong behind their good records */
} blocks_reading;

static void reading_release(blocks_reading *all) {
    for (size_t i = 0; i < all->run_count; i++) run_release(&all->runs[i]);
    free(all->bounds);
    free(all->runs);
    free(all->broken);
    free(all->why);
}

static bool count_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                       void *state) {
    size_t *spans = state;
    (void)now, (void)asked, (void)span;
    (*spans)++;
    return true;
}

/* Room for what the call asks for. Groups without lanes are one, all together. */
static bool reading_begin(kernel_call *now, const blocks_request *asked, blocks_reading *all) {
    size_t spans = 0;
    all->lanes = asked->lanes > 0 ? (size_t)asked->lanes : 1;
    if (asked->lanes > 0 && asked->wanted_rows > 1)
        return fail(&now->why, TF_INVALID_ARGUMENT, "groups of lanes are wanted one by one");
    if (!each_span(now, asked, count_span, &spans)) return false;
    all->bounds = calloc(all->lanes + 1, sizeof *all->bounds);
    all->runs = calloc(spans + 1, sizeof *all->runs);
    all->broken = calloc(all->lanes, sizeof *all->broken);
    all->why = calloc(all->lanes, sizeof *all->why);
    return (all->bounds && all->runs && all->broken && all->why) ||
           fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
}

/* False, with now->why: what is behind the damage is not read. */
static bool read_spans(kernel_call *now, const blocks_request *asked, blocks_reading *all,
                       int64_t first, int64_t last) {
    for (int64_t s = first; s < last; s++)
        if (!run_read(now, asked, &asked->spans[s], all->settings, &all->runs[all->run_count++]))
            return false;
    return true;
}

/* False: the call fails. With `partial`, damage ends only the lane that has it. */
static bool read_lanes(kernel_call *now, const blocks_request *asked, blocks_reading *all) {
    for (int64_t i = 0; i < asked->wanted_rows; i++) {
        size_t lanes = 0;
        const int64_t group = wanted_group(asked, i);
        if (group < 0) continue;
        const int64_t *bounds = group_lanes(asked, group, &lanes);
        for (size_t lane = 0; lane < lanes && !all->broken[lane]; lane++) {
            if (!read_spans(now, asked, all, bounds[lane], bounds[lane + 1])) {
                if (!all->settings->partial) return false;
                all->broken[lane] = true;
                all->why[lane] = now->why;
                now->why.code = TF_OK;
            }
            all->bounds[lane + 1] = all->run_count;
        }
    }
    return true;
}

/* The records as far as they are good, whose bytes `all` holds; with `partial`, damage behind some of
 * them goes to `late`. NULL: the call fails. */
static record_list *read_all(kernel_call *now, const blocks_request *asked, blocks_reading *all,
                             failure *late) {
    size_t stopped = all->lanes;
    if (!read_lanes(now, asked, all)) return NULL;
    record_list *records =
        runs_join(all->runs, all->bounds, all->lanes, all->broken, &stopped, &now->why);
    if (records == NULL || stopped == all->lanes) return records;
    *(records_count(records) > 0 ? late : &now->why) = all->why[stopped];
    return records;
}

/* The records, shuffled if there is a seed, and what is wrong behind them. */
static void output_read(kernel_call *now, record_list *records, const int64_t *seed,
                        const failure *late) {
    if (seed != NULL) records_shuffle(records, (uint64_t)*seed);
    if (output_records(now, 0, records)) output_error(now, 1, late);
}

/* --- span by span ------------------------------------------------------------------------------- */

typedef struct {
    const read_settings *settings;
    int64_t expected; /* records that have still to come */
    bool raw;         /* all of them lie in local files, which are as long as their blocks claim */
    TF_TString *strings; /* from the next record on */
} spans_copying;

static bool expect_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                        void *state) {
    spans_copying *all = state;
    named_block named;
    if (!input_block(now, asked, span, &named)) return false;
    all->raw = all->raw && is_raw_local(named.url, named.codec, all->settings);
    return add_claim(now, &all->expected, span_records(asked, span));
}

static bool copy_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                      void *state) {
    spans_copying *all = state;
    span_run next = {0};
    const bool good = run_read(now, asked, span, all->settings, &next);
    const bool fits = good && next.found.count <= (size_t)all->expected;
    if (fits) {
        part_copy(&next.found, all->strings);
        all->strings += next.found.count;
        all->expected -= (int64_t)next.found.count;
    }
    run_release(&next);
    return fits || !good || fail(&now->why, TF_INTERNAL, "more records came than were announced");
}

/* Where all or nothing is wanted of raw local files, in the order of the spans, each span is copied
 * while it lies in the processor's cache, and the next one is read into the same memory. False: it is
 * not so, and nothing was done. */
static bool copy_spans(kernel_call *now, const blocks_request *asked, const int64_t *seed,
                       const read_settings *settings) {
    spans_copying all = {.settings = settings, .raw = true};
    failure none;
    none.code = TF_OK;
    if (asked->lanes > 0 || settings->partial || settings->skip_corrupt || seed != NULL)
        return false;
    if (!each_span(now, asked, expect_span, &all)) return true;
    if (!all.raw) return false;
    all.strings = output_tensor(now, 0, TF_STRING, &all.expected, 1);
    if (all.strings != NULL && each_span(now, asked, copy_span, &all)) output_error(now, 1, &none);
    return true;
}

/* ------------------------------------------------------------------------------------------------ */

void read_blocks(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    blocks_request asked;
    blocks_reading all = {.settings = kernel};
    const int64_t *seed = NULL;
    failure late;
    late.code = TF_OK;
    if (call_begin(&now, context, READ_INPUT_COUNT) && input_request(&now, &asked) &&
        input_option(&now, SEED_INPUT, &seed) && check_marks(&now, &asked, asked.wanted_rows) &&
        !copy_spans(&now, &asked, seed, kernel) && reading_begin(&now, &asked, &all)) {
        record_list *records = read_all(&now, &asked, &all, &late);
        if (now.why.code == TF_OK) output_read(&now, records, seed, &late);
        records_delete(records);
    }
    reading_release(&all);
    call_end(&now);
}

/* --- begin -------------------------------------------------------------------------------------- */

static bool begin_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                       void *state) {
    const read_settings *settings = state;
    named_block named;
    if (!input_block(now, asked, span, &named)) return false;
    if (!is_raw_local(named.url, named.codec, settings)) lent_begin(&named.block, settings);
    return true;
}

void begin_blocks(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    blocks_request asked;
    if (call_begin(&now, context, REQUEST_INPUT_COUNT) && input_request(&now, &asked) &&
        check_marks(&now, &asked, asked.wanted_rows) &&
        each_span(&now, &asked, begin_span, kernel)) {
        bool scalar = input_is_scalar(&now, WANTED);
        int64_t *same = output_numbers(&now, 0, scalar ? -1 : asked.wanted_rows);
        if (same != NULL) memcpy(same, asked.wanted, (size_t)asked.wanted_rows * sizeof *same);
    }
    call_end(&now);
}

/* --- await -------------------------------------------------------------------------------------- */

static bool await_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                       void *state) {
    const read_settings *settings = state;
    named_block named;
    if (!input_block(now, asked, span, &named)) return false;
    return is_raw_local(named.url, named.codec, settings) || lent_await(&named.block, settings);
}

void await_blocks(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    blocks_request asked;
    const int64_t *attempt = NULL;
    if (call_begin(&now, context, AWAIT_INPUT_COUNT) && input_request(&now, &asked) &&
        check_marks(&now, &asked, asked.wanted_rows) && input_numbers(&now, ATTEMPT, 1, &attempt)) {
        const bool here = each_span(&now, &asked, await_span, kernel);
        int64_t *again = now.why.code == TF_OK ? output_numbers(&now, 0, -1) : NULL;
        if (again != NULL) *again = here ? -1 : (int64_t)(((uint64_t)attempt[0] + 1) & INT64_MAX);
    }
    call_end(&now);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* TfioStoreReadExamples and TfioStoreReadPicked: one batch, from the blocks to the tensors that a
 * training step takes. The records of the second are those that TfioStorePickRecords has picked.
 *
 * `wanted` is the number of a group, whose records are the batch; or group, batch and seed: then the
 * group is a window, its records are shuffled by the seed, and the batch is the n-th run of `batch_size`
 * records of it. A negative group is the end: OUT_OF_RANGE.
 */

enum { GROUP, BATCH, SEED, WANTED_COUNT };

typedef struct {
    read_settings *settings;
    int64_t batch_size;
    column_list columns; /* none: records as they are */
    window_cache *shared;
    held_epochs *held;
} examples_kernel;

/* --- the kernel --------------------------------------------------------------------------------- */

void examples_delete(void *kernel) {
    examples_kernel *of = kernel;
    if (of == NULL) return;
    settings_delete(of->settings);
    columns_release(&of->columns);
    windows_delete(of->shared);
    held_delete(of->held);
    free(of);
}

static void examples_fill(examples_kernel *of, TF_OpKernelConstruction *context,
                          TF_Status *status) {
    size_t size = 0;
    failure why = {TF_OK, ""};
    of->shared = windows_new();
    of->held = held_new();
    of->batch_size = (int64_t)size_attribute(context, "batch_size", status);
    char *text = text_attribute(context, "columns", &size, status);
    if (tf.GetCode(status) != TF_OK) return;
    if (of->shared == NULL || of->held == NULL)
        fail(&why, TF_RESOURCE_EXHAUSTED, "out of memory");
    else if (of->batch_size < 1)
        fail(&why, TF_INVALID_ARGUMENT, "batch_size takes 1 or more records");
    else if (of->settings->skip_corrupt) /* then nobody knows which records a batch has */
        fail(&why, TF_INVALID_ARGUMENT, "skip_corrupt is not for batches of known records");
    if (!columns_parse(&of->columns, text, size, &why) || why.code != TF_OK)
        tf.SetStatus(status, why.code, why.message);
}

void *examples_new(TF_OpKernelConstruction *context) {
    lent_forget(); /* a kernel is made when an iterator is */
    read_settings *settings = settings_new(context);
    if (settings == NULL) return NULL; /* which was told */
    TF_Status *status = tf.NewStatus();
    examples_kernel *of = calloc(1, sizeof *of);
    if (of != NULL) {
        of->settings = settings;
        examples_fill(of, context, status);
    } else {
        settings_delete(settings);
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (tf.GetCode(status) != TF_OK) {
        tf.OpKernelConstruction_Failure(context, status);
        examples_delete(of);
        of = NULL;
    }
    tf.DeleteStatus(status);
    return of;
}

/* --- outputs ------------------------------------------------------------------------------------ */

/* Which record of which file does not parse. */
static void fail_record(kernel_call *now, const blocks_request *asked, const record_window *of,
                        const uint8_t *record, const decode_fault *fault) {
    const span_row *span = NULL;
    int64_t offset = 0;
    named_block named;
    char place[MAX_NAME + 64] = "a record";
    if (window_place(of, now, asked, record, &span, &offset) &&
        input_block(now, asked, span, &named))
        snprintf(place, sizeof place, "%s: the record at offset %" PRId64, named.url, offset);
    decode_fail(fault, place, &now->why);
}

static void output_records_of(kernel_call *now, const examples_kernel *of,
                              const blocks_request *asked, const record_window *from, size_t first,
                              size_t count) {
    const ex_bytes *records = records_all(window_records(from)) + first;
    decode_fault fault;
    if (!output_rows(now, &of->columns, records, count, &fault) && fault.status != EX_OK)
        fail_record(now, asked, from, records[fault.record].data, &fault);
}

/* Records [first, last) of those that the window announces. */
static void output_batch(kernel_call *now, const examples_kernel *of, const blocks_request *asked,
                         const record_window *from, int64_t first, int64_t last) {
    const record_list *good = window_records(from);
    int64_t count = good != NULL ? (int64_t)records_count(good) : 0;
    if (last > count || good == NULL)
        now->why = *window_damage(from);
    else
        output_records_of(now, of, asked, from, (size_t)first, (size_t)(last - first));
}

/* --- the op ------------------------------------------------------------------------------------- */

static void read_group(kernel_call *now, const examples_kernel *of, const blocks_request *asked) {
    record_window *whole = window_new(now, asked, wanted_group(asked, GROUP));
    if (whole == NULL) return;
    window_read(whole, now, asked, of->settings, NULL);
    output_batch(now, of, asked, whole, 0, window_expected(whole));
    window_delete(whole);
}

static void read_shuffled(kernel_call *now, const examples_kernel *of,
                          const blocks_request *asked) {
    int64_t group = wanted_group(asked, GROUP), batch = asked->wanted[BATCH], first = 0;
    uint64_t seed = (uint64_t)asked->wanted[SEED];
    shared_window *held = windows_take(of->shared, now, asked, group, seed, of->batch_size);
    if (held == NULL) return;
    record_window *from = windows_window(held);
    int64_t expected = window_expected(from);
    if (batch < 0 || __builtin_mul_overflow(batch, of->batch_size, &first) || first >= expected) {
        fail(&now->why, TF_INVALID_ARGUMENT, "group %" PRId64 " has no batch %" PRId64, group,
             batch);
    } else {
        window_read(from, now, asked, of->settings, &seed);
        int64_t left = expected - first;
        output_batch(now, of, asked, from, first,
                     first + (left < of->batch_size ? left : of->batch_size));
    }
    windows_give(of->shared, held);
}

/* --- TfioStoreWindowRows ------------------------------------------------------------------------ */

enum { WINDOW, WINDOW_SEED, WINDOW_SIZES, WINDOW_INPUT_COUNT };
enum { WINDOWS, PER_WINDOW, IN_LAST, WINDOW_MARK, SIZE_COUNT };

/* [window, batch, seed] for each batch of a window, whose number has a mark. */
void window_rows(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    kernel_call now;
    const int64_t *window = NULL, *seed = NULL, *sizes = NULL;
    if (call_begin(&now, context, WINDOW_INPUT_COUNT) && input_numbers(&now, WINDOW, 1, &window) &&
        input_numbers(&now, WINDOW_SEED, 1, &seed) &&
        input_numbers(&now, WINDOW_SIZES, SIZE_COUNT, &sizes) &&
        check_mark(&now, window[0], sizes[WINDOW_MARK])) {
        const int64_t number = marked_group(window[0]);
        const bool whole = 0 <= number && number < sizes[WINDOWS];
        const bool last = whole && number == sizes[WINDOWS] - 1;
        const int64_t batches = sizes[last ? IN_LAST : PER_WINDOW];
        const int64_t dims[2] = {whole ? batches : 1, WANTED_COUNT};
        int64_t *rows = dims[0] < 0 ? NULL : output_tensor(&now, 0, TF_INT64, dims, 2);
        for (int64_t i = 0; rows != NULL && i < dims[0]; i++) {
            rows[WANTED_COUNT * i + GROUP] = window[0];
            rows[WANTED_COUNT * i + BATCH] = i;
            rows[WANTED_COUNT * i + SEED] = seed[0];
        }
        if (rows == NULL && now.why.code == TF_OK)
            fail(&now.why, TF_INVALID_ARGUMENT, "a window has no %" PRId64 " batches", dims[0]);
    }
    call_end(&now);
}

/* ------------------------------------------------------------------------------------------------ */

void read_examples(void *kernel, TF_OpKernelContext *context) {
    const examples_kernel *of = kernel;
    kernel_call now;
    blocks_request asked;
    if (call_begin(&now, context, REQUEST_INPUT_COUNT) && check_outputs(&now, &of->columns) &&
        input_request(&now, &asked) && check_marks(&now, &asked, asked.wanted_rows > 0)) {
        bool whole = asked.wanted_rows == 1;
        if (!whole && asked.wanted_rows != WANTED_COUNT)
            fail(&now.why, TF_INVALID_ARGUMENT, "wanted is not [group, batch, seed]");
        else if (asked.wanted[GROUP] < 0)
            fail(&now.why, TF_OUT_OF_RANGE, "the end");
        else if (whole)
            read_group(&now, of, &asked);
        else
            read_shuffled(&now, of, &asked);
    }
    call_end(&now);
}

/* --- TfioStoreReadPicked ------------------------------------------------------------------------ */

enum { PICKED_BATCH, PICKED_EPOCH, PICKED };

/* Which record does not parse: where it lies is found by reading its block once more. */
static void fail_picked(kernel_call *now, const examples_kernel *of, const blocks_request *asked,
                        int64_t pick, const decode_fault *fault) {
    const int64_t block = pick >> 32;
    const span_row whole = {block, 0, asked->table[block].records};
    span_run run = {0};
    named_block named;
    char place[MAX_NAME + 64];
    if (input_block(now, asked, &whole, &named) &&
        run_read(now, asked, &whole, of->settings, &run) &&
        (size_t)(pick & UINT32_MAX) < run.found.count) {
        const int64_t offset =
            asked->table[block].raw_start + run.found.offsets[pick & UINT32_MAX] - TFRECORD_HEADER;
        snprintf(place, sizeof place, "%s: the record at offset %" PRId64, named.url, offset);
        decode_fail(fault, place, &now->why);
    }
    run_release(&run);
}

/* A last batch may have fewer records than there is room for. */
static size_t picked_count(const blocks_request *asked) {
    size_t count = 0;
    while ((int64_t)count < asked->wanted_rows - PICKED && asked->wanted[PICKED + count] >= 0)
        count++;
    return count;
}

void read_picked(void *kernel, TF_OpKernelContext *context) {
    const examples_kernel *of = kernel;
    kernel_call now;
    blocks_request asked;
    if (call_begin(&now, context, REQUEST_INPUT_COUNT) && check_outputs(&now, &of->columns) &&
        input_request(&now, &asked) && check_marks(&now, &asked, asked.wanted_rows > 0)) {
        held_picks *taken = NULL;
        const size_t count = picked_count(&asked);
        if (asked.wanted_rows > 0 && asked.wanted[PICKED_BATCH] < 0)
            fail(&now.why, TF_OUT_OF_RANGE, "the end");
        else if (asked.wanted_rows <= PICKED)
            fail(&now.why, TF_INVALID_ARGUMENT, "wanted is not [batch, epoch, records]");
        else
            taken = held_take(of->held, &now, &asked, of->settings, asked.wanted[PICKED_EPOCH],
                              asked.wanted + PICKED, count);
        decode_fault fault;
        if (taken != NULL && !output_rows(&now, &of->columns, held_records(taken), count, &fault) &&
            fault.status != EX_OK)
            fail_picked(&now, of, &asked, asked.wanted[PICKED + fault.record], &fault);
        held_give(taken);
    }
    call_end(&now);
}
