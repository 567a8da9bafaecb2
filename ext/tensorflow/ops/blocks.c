/* TfioStoreReadBlocks, TfioStoreBeginBlocks and TfioStoreAwaitBlocks. */
#include <stdlib.h>
#include <string.h>

#include "tensorflow/ops/kernels.h"
#include "tensorflow/ops/runs.h"

enum { SEED = REQUEST_INPUT_COUNT, READ_INPUT_COUNT };
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
        input_option(&now, SEED, &seed) && check_marks(&now, &asked, asked.wanted_rows) &&
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
