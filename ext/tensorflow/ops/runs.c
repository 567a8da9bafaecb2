#include "tensorflow/ops/runs.h"

#include <inttypes.h>

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
    bool good = is_raw_local(named.url, named.codec, settings)
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
