/* TfioStoreReadBlocks and TfioStoreBeginBlocks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tf_kernels.h"
#include "tf_lent.h"
#include "tf_request.h"

enum { SEED = REQUEST_INPUT_COUNT, READ_INPUT_COUNT };

/* --- one span ----------------------------------------------------------------------------------- */

/* How many bytes of a block to read for the records up to `last` of it: all, unless they are few. */
static int64_t stop_for(const block_request *block, int64_t last) {
    int64_t bytes = block->stop - block->start;
    if (last >= block->records)
        return block->stop;
    double guess = (double)bytes * (double)last / (double)block->records * 1.1 + 4096;
    return guess < (double)bytes / 2 ? block->start + (int64_t)guess : block->stop;
}

static bool read_local(const block_request *block, search *wanted, part *found, failure *why) {
    local_file file;
    if (!local_open(&file, block->url, block->version, why))
        return false;
    int64_t stop = stop_for(block, (int64_t)(wanted->skip + wanted->take));
    for (;;) {
        wanted->whole = stop == block->stop;
        bool good = local_read(&file, (uint64_t)block->start, (uint64_t)stop, &found->bytes, why) &&
                    part_search(found, wanted, why);
        if (wanted->whole || !good || found->count == wanted->take) {
            local_close(&file);
            return good;
        }
        part_release(found); /* the records are longer there than on average */
        stop = block->stop;
    }
}

/* Records that were read, and what their bytes belong to. */
typedef struct {
    part found;
    lent_block *lent; /* NULL: `found` owns them */
} run;

static void run_release(run *done) {
    if (done->lent != NULL)
        lent_release(done->lent);
    else
        part_release(&done->found);
}

/* Some of the records of a block that has more of them. */
static part slice(const part *whole, size_t skip, size_t take) {
    size_t from = skip < whole->count ? skip : whole->count;
    size_t left = whole->count - from;
    return (part){.bytes = {.data = whole->bytes.data, .size = whole->bytes.size},
                  .offsets = whole->offsets + from,
                  .lengths = whole->lengths + from,
                  .count = take < left ? take : left,
                  .end = whole->end};
}

static bool read_lent(const block_request *block, const read_settings *settings,
                      const search *wanted, run *next, failure *why) {
    next->lent = lent_take(block, settings, (int64_t)wanted->take, why);
    if (next->lent == NULL)
        return false;
    next->found = slice(lent_records(next->lent), wanted->skip, wanted->take);
    const failure *damage = lent_damage(next->lent);
    if (next->found.count == wanted->take || damage->code == TF_OK)
        return true;
    *why = *damage;
    return false;
}

/* --- all spans ---------------------------------------------------------------------------------- */

typedef struct {
    const read_settings *settings;
    size_t spans;
    run *runs; /* of the spans read so far */
    size_t run_count;
} reading;

static bool count_span(call *now, const request *asked, const span_row *span, void *state) {
    reading *all = state;
    (void)now, (void)asked, (void)span;
    all->spans++;
    return true;
}

/* False leaves the good records before the damage. */
static bool read_span(call *now, const request *asked, const span_row *span, void *state) {
    reading *all = state;
    run *next = &all->runs[all->run_count++];
    named_block named;
    if (!input_block(now, asked, span, &named))
        return false;
    if (all->settings->skip_corrupt) {
        named.block.file_blocks = file_blocks(asked, span->block);
        return lender.read_block(&named.block, all->settings, &next->found, &now->why);
    }
    search wanted = {.url = named.url,
                     .base = named.block.raw_start,
                     .skip = (size_t)span->skip,
                     .take = (size_t)span_records(asked, span),
                     .verify = all->settings->verify,
                     .limit = all->settings->limit};
    bool good = is_raw_local(named.url, named.codec, all->settings)
                    ? read_local(&named.block, &wanted, &next->found, &now->why)
                    : read_lent(&named.block, all->settings, &wanted, next, &now->why);
    if (!good || next->found.count == wanted.take)
        return good;
    return fail(&now->why, TF_DATA_LOSS,
                "%s: the data ends inside a block: %zu of its records are missing (offset %" PRId64
                ")",
                named.url, wanted.take - next->found.count,
                named.block.raw_start + (int64_t)next->found.end);
}

static record_list *join_runs(const reading *all, failure *why) {
    size_t total = 0;
    for (size_t i = 0; i < all->run_count; i++)
        total += all->runs[i].found.count;
    record_list *records = records_new(total, why);
    for (size_t i = 0; i < all->run_count && records != NULL; i++) {
        if (records_add(records, &all->runs[i].found, why))
            continue;
        records_delete(records);
        records = NULL;
    }
    return records;
}

/* The records as far as they are good, whose bytes `all` holds; with `partial`, damage behind some of
 * them goes to `late`. NULL: the call fails. */
static record_list *read_all(call *now, const request *asked, reading *all, failure *late) {
    failure why;
    all->runs = calloc(all->spans + 1, sizeof *all->runs);
    if (all->runs == NULL) {
        fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    bool good = each_span(now, asked, read_span, all);
    record_list *records = NULL;
    if (good || all->settings->partial)
        records = join_runs(all, good ? &now->why : &why);
    if (!good && records != NULL && records_count(records) > 0) {
        *late = now->why;
        now->why.code = TF_OK;
    }
    return records;
}

static void reading_release(reading *all) {
    for (size_t i = 0; i < all->run_count; i++)
        run_release(&all->runs[i]);
    free(all->runs);
}

/* "15:what happened", as TfioStoreRaise reads it. */
static bool output_error(call *now, int index, const failure *why) {
    char text[sizeof why->message + 16] = "";
    if (why->code != TF_OK)
        snprintf(text, sizeof text, "%d:%s", (int)why->code, why->message);
    return output_text(now, index, text);
}

/* The records, shuffled if there is a seed, and what is wrong behind them. */
static void output_read(call *now, record_list *records, const failure *late) {
    const int64_t *seed = NULL;
    int64_t seeds = 0;
    if (!input_rows(now, SEED, 1, &seed, &seeds))
        return;
    if (seeds > 0)
        records_shuffle(records, (uint64_t)seed[0]);
    if (output_records(now, 0, records))
        output_error(now, 1, late);
}

void read_blocks(void *kernel, TF_OpKernelContext *context) {
    call now;
    request asked;
    reading all = {.settings = kernel};
    failure late;
    late.code = TF_OK;
    if (call_begin(&now, context, READ_INPUT_COUNT) && input_request(&now, &asked) &&
        each_span(&now, &asked, count_span, &all)) {
        record_list *records = read_all(&now, &asked, &all, &late);
        if (now.why.code == TF_OK)
            output_read(&now, records, &late);
        records_delete(records);
    }
    reading_release(&all);
    call_end(&now);
}

/* --- begin -------------------------------------------------------------------------------------- */

static bool begin_span(call *now, const request *asked, const span_row *span, void *state) {
    const read_settings *settings = state;
    named_block named;
    if (!input_block(now, asked, span, &named))
        return false;
    if (settings->skip_corrupt)
        lender.begin_block(&named.block, settings);
    else if (!is_raw_local(named.url, named.codec, settings))
        lent_begin(&named.block, settings);
    return true;
}

void begin_blocks(void *kernel, TF_OpKernelContext *context) {
    call now;
    request asked;
    if (call_begin(&now, context, REQUEST_INPUT_COUNT) && input_request(&now, &asked) &&
        each_span(&now, &asked, begin_span, kernel)) {
        bool scalar = tf.NumDims(now.inputs[WANTED]) == 0;
        int64_t *same = output_numbers(&now, 0, scalar ? -1 : asked.wanted_rows);
        if (same != NULL)
            memcpy(same, asked.wanted, (size_t)asked.wanted_rows * sizeof *same);
    }
    call_end(&now);
}
