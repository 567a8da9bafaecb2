/* TfioStoreReadBlocks, TfioStoreBeginBlocks and TfioStoreAwaitBlocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/ops/kernels.h"
#include "tensorflow/ops/runs.h"

enum { SEED = REQUEST_INPUT_COUNT, READ_INPUT_COUNT };
enum { ATTEMPT = REQUEST_INPUT_COUNT, AWAIT_INPUT_COUNT };

/* --- all spans ---------------------------------------------------------------------------------- */

typedef struct {
    const read_settings *settings;
    size_t spans;
    span_run *runs; /* of the spans read so far */
    size_t run_count;
} blocks_reading;

static bool count_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                       void *state) {
    blocks_reading *all = state;
    (void)now, (void)asked, (void)span;
    all->spans++;
    return true;
}

/* False leaves the good records before the damage. */
static bool read_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                      void *state) {
    blocks_reading *all = state;
    return run_read(now, asked, span, all->settings, &all->runs[all->run_count++]);
}

static record_list *join_runs(const blocks_reading *all, failure *why) {
    size_t total = 0;
    for (size_t i = 0; i < all->run_count; i++) total += all->runs[i].found.count;
    record_list *records = records_new(total, why);
    for (size_t i = 0; i < all->run_count && records != NULL; i++) {
        if (records_add(records, &all->runs[i].found, why)) continue;
        records_delete(records);
        records = NULL;
    }
    return records;
}

/* The records as far as they are good, whose bytes `all` holds; with `partial`, damage behind some of
 * them goes to `late`. NULL: the call fails. */
static record_list *read_all(kernel_call *now, const blocks_request *asked, blocks_reading *all,
                             failure *late) {
    failure why;
    all->runs = calloc(all->spans + 1, sizeof *all->runs);
    if (all->runs == NULL) {
        fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    bool good = each_span(now, asked, read_span, all);
    record_list *records = NULL;
    if (good || all->settings->partial) records = join_runs(all, good ? &now->why : &why);
    if (!good && records != NULL && records_count(records) > 0) {
        *late = now->why;
        now->why.code = TF_OK;
    }
    return records;
}

static void reading_release(blocks_reading *all) {
    for (size_t i = 0; i < all->run_count; i++) run_release(&all->runs[i]);
    free(all->runs);
}

/* "15:what happened", as TfioStoreRaise reads it. */
static bool output_error(kernel_call *now, int index, const failure *why) {
    char text[sizeof why->message + 16] = "";
    if (why->code != TF_OK) snprintf(text, sizeof text, "%d:%s", (int)why->code, why->message);
    return output_text(now, index, text);
}

/* The records, shuffled if there is a seed, and what is wrong behind them. */
static void output_read(kernel_call *now, record_list *records, const failure *late) {
    const int64_t *seed = NULL;
    int64_t seeds = 0;
    if (!input_rows(now, SEED, 1, &seed, &seeds)) return;
    if (seeds > 0) records_shuffle(records, (uint64_t)seed[0]);
    if (output_records(now, 0, records)) output_error(now, 1, late);
}

void read_blocks(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    blocks_request asked;
    blocks_reading all = {.settings = kernel};
    failure late;
    late.code = TF_OK;
    if (call_begin(&now, context, READ_INPUT_COUNT) && input_request(&now, &asked) &&
        each_span(&now, &asked, count_span, &all)) {
        record_list *records = read_all(&now, &asked, &all, &late);
        if (now.why.code == TF_OK) output_read(&now, records, &late);
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
        each_span(&now, &asked, begin_span, kernel)) {
        bool scalar = tf.NumDims(now.inputs[WANTED]) == 0;
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
    int64_t n = 0;
    if (call_begin(&now, context, AWAIT_INPUT_COUNT) && input_request(&now, &asked) &&
        input_rows(&now, ATTEMPT, 1, &attempt, &n)) {
        const bool here = each_span(&now, &asked, await_span, kernel);
        int64_t *again = now.why.code == TF_OK ? output_numbers(&now, 0, -1) : NULL;
        if (again != NULL) *again = here || n != 1 ? -1 : (attempt[0] + 1) & INT64_MAX;
    }
    call_end(&now);
}
