#include "tensorflow/ops/runs.h"

#include <inttypes.h>
#include <stdlib.h>

/* How many bytes of a block to read for the records up to `last` of it: all, unless they are few. */
static int64_t stop_for(const block_request *block, int64_t last) {
    int64_t bytes = block->stop - block->start;
    if (last >= block->records) return block->stop;
    double guess = (double)bytes * (double)last / (double)block->records * 1.1 + 4096;
    return guess < (double)bytes / 2 ? block->start + (int64_t)guess : block->stop;
}

static bool read_local(const block_request *block, record_search *wanted, record_part *found,
                       failure *why) {
    local_file file;
    if (!local_open(&file, block->url, block->version, why)) return false;
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

/* Some of the records of a block that has more of them. */
static record_part slice(const record_part *whole, size_t skip, size_t take) {
    size_t from = skip < whole->count ? skip : whole->count;
    size_t left = whole->count - from;
    return (record_part){.bytes = {.data = whole->bytes.data, .size = whole->bytes.size},
                         .offsets = whole->offsets + from,
                         .lengths = whole->lengths + from,
                         .count = take < left ? take : left,
                         .end = whole->end};
}

/* With skip_corrupt it is read whole, since nobody knows which of its records are good. */
static bool read_lent(const block_request *block, const read_settings *settings,
                      const record_search *wanted, span_run *next, failure *why) {
    bool whole = settings->skip_corrupt;
    next->lent = lent_take(block, settings, whole ? block->records : (int64_t)wanted->take, why);
    if (next->lent == NULL) return false;
    next->found = slice(lent_records(next->lent), wanted->skip, wanted->take);
    const failure *damage = lent_damage(next->lent);
    if (next->found.count == wanted->take || damage->code == TF_OK) return true;
    *why = *damage;
    return false;
}

bool run_read(kernel_call *now, const blocks_request *asked, const span_row *span,
              const read_settings *settings, span_run *next) {
    named_block named;
    if (asked->lanes > 0 && span->take == 0) {
        next->idle = (size_t)span->skip;
        return true;
    }
    if (!input_block(now, asked, span, &named)) return false;
    if (settings->skip_corrupt) named.block.file_blocks = file_blocks(asked, span->block);
    /* of a damaged block, nobody knows how many records it has */
    const int64_t take = settings->skip_corrupt ? span->take : span_records(asked, span);
    record_search wanted = {.url = named.url,
                            .base = named.block.raw_start,
                            .skip = (size_t)span->skip,
                            .take = (size_t)take,
                            .verify = settings->verify,
                            .limit = settings->limit,
                            .size = (size_t)(named.block.raw_stop - named.block.raw_start),
                            .sums = {-1, -1}};
    /* of some of the records, nobody knows the sum */
    if (!settings->skip_corrupt && span->skip + take == named.block.records)
        wanted.sums = named.block.sums;
    /* several groups of lanes have some records each of a block, which is read and checked once */
    const bool alone = asked->lanes == 0 || wanted.take == (size_t)named.block.records;
    bool good = alone && is_raw_local(named.url, named.codec, settings)
                    ? read_local(&named.block, &wanted, &next->found, &now->why)
                    : read_lent(&named.block, settings, &wanted, next, &now->why);
    if (!good || settings->skip_corrupt || next->found.count == wanted.take) return good;
    return fail(&now->why, TF_DATA_LOSS,
                "%s: the data ends inside a block: %zu of its records are missing (offset %" PRId64
                ")",
                named.url, wanted.take - next->found.count,
                named.block.raw_start + (int64_t)next->found.end);
}

void run_release(span_run *done) {
    if (done->lent != NULL)
        lent_release(done->lent);
    else
        part_release(&done->found);
    *done = (span_run){0};
}

/* --- lanes -------------------------------------------------------------------------------------- */

/* Where a lane stands: at a record of a run, or behind so many idle turns of it. */
typedef struct {
    size_t lane, run, last, at;
} lane_place;

/* Whether the lane gives a record in this turn, or another in a later one. */
static bool lane_goes_on(lane_place *of, const span_run *runs) {
    while (of->run < of->last && of->at == runs[of->run].found.count + runs[of->run].idle) {
        of->run++;
        of->at = 0;
    }
    return of->run < of->last;
}

static void lane_give(lane_place *of, const span_run *runs, record_list *records) {
    const record_part *found = &runs[of->run].found;
    const size_t at = of->at++;
    if (at < found->count)
        records_put(records,
                    (ex_bytes){found->bytes.data + found->offsets[at], (size_t)found->lengths[at]});
}

/* Lanes that have ended leave, and the others keep their order. */
static void take_turns(const span_run *runs, lane_place *places, size_t lanes, const bool *broken,
                       size_t *stopped, record_list *records) {
    while (lanes > 0) {
        size_t left = 0;
        for (size_t i = 0; i < lanes; i++) {
            if (lane_goes_on(&places[i], runs)) {
                lane_give(&places[i], runs, records);
                places[left++] = places[i];
            } else if (broken != NULL && broken[places[i].lane]) {
                *stopped = places[i].lane;
                return;
            }
        }
        lanes = left;
    }
}

record_list *runs_join(const span_run *runs, const size_t *bounds, size_t lanes, const bool *broken,
                       size_t *stopped, failure *why) {
    size_t total = 0;
    for (size_t i = bounds[0]; i < bounds[lanes]; i++) total += runs[i].found.count;
    record_list *records = records_new(total, why);
    lane_place *places = records == NULL ? NULL : malloc(lanes * sizeof *places);
    if (places == NULL) {
        if (records != NULL) fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
        records_delete(records);
        return NULL;
    }
    for (size_t i = 0; i < lanes; i++) places[i] = (lane_place){i, bounds[i], bounds[i + 1], 0};
    if (lanes > 1) {
        take_turns(runs, places, lanes, broken, stopped, records);
    } else {
        for (size_t i = bounds[0]; i < bounds[1]; i++) records_add(records, &runs[i].found, why);
        if (broken != NULL && broken[0]) *stopped = 0;
    }
    free(places);
    return records;
}
