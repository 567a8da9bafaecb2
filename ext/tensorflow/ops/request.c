#include "tensorflow/ops/request.h"

#include <inttypes.h>

#include "tfrecord/tfrecord.h"

enum { TABLE_COLUMNS = 8, SPAN_COLUMNS = 3 };

/* --- marks, as tfio_store/tf/dataset/spans.py has them ---------------------------------------- */

enum { PLACE_BITS = 12 };

static const char REPLACED[] =
    "the iterator's state was taken of other files than those that are there now: they, or "
    "their manifest, were replaced since; begin anew, without this state";

/* Whether they are of other files in the same place. Of no files (0) nothing is known. */
static bool other_files(uint32_t saved, uint32_t now) {
    const uint32_t differ = saved ^ now;
    const bool same_place = (differ & ((1u << PLACE_BITS) - 1)) == 0;
    return saved != 0 && now != 0 && same_place && differ != 0;
}

bool check_mark(kernel_call *now, int64_t number, int64_t now_there) {
    return number < 0 || !other_files((uint32_t)number, (uint32_t)now_there) ||
           fail(&now->why, TF_FAILED_PRECONDITION, "%s", REPLACED);
}

bool check_marks(kernel_call *now, const blocks_request *asked, int64_t numbers) {
    for (int64_t i = 0; asked->mark != NULL && i < numbers; i++)
        if (!check_mark(now, asked->wanted[i], asked->mark[0])) return false;
    return true;
}

int64_t marked_group(int64_t number) { return number < 0 ? number : number >> MARK_BITS; }

int64_t wanted_group(const blocks_request *asked, int64_t i) {
    return asked->mark == NULL ? asked->wanted[i] : marked_group(asked->wanted[i]);
}

/* ------------------------------------------------------------------------------------------------ */

bool input_request(kernel_call *now, blocks_request *asked) {
    const int64_t *table = NULL, *spans = NULL, bounds = input_columns(now, GROUPS);
    const TF_TString *files = NULL;
    asked->lanes = bounds - 1;
    if (!input_strings(now, FILES, &files, &asked->files) ||
        !input_rows(now, TABLE, TABLE_COLUMNS, &table, &asked->table_rows) ||
        !input_rows(now, SPANS, SPAN_COLUMNS, &spans, &asked->span_rows) ||
        !input_rows(now, GROUPS, bounds, &asked->groups, &asked->group_rows) ||
        !input_option(now, MARK, &asked->mark) ||
        !input_rows(now, WANTED, 1, &asked->wanted, &asked->wanted_rows))
        return false;
    asked->table = (const block_row *)(const void *)table;
    asked->spans = (const span_row *)(const void *)spans;
    return true;
}

/* Idle turns are never more than the files, each of which ends once: a claim of more would be waited for. */
static bool add_span(kernel_call *now, const blocks_request *asked, const span_row *span,
                     int64_t *records, int64_t *idle) {
    const bool turns = asked->lanes > 0 && span->take == 0;
    if (!add_claim(now, turns ? idle : records, turns ? span->skip : span_records(asked, span)))
        return false;
    return *idle <= asked->files ||
           fail(&now->why, TF_INVALID_ARGUMENT, "%" PRId64 " empty turns make no sense", *idle);
}

bool input_group(kernel_call *now, const blocks_request *asked, int64_t group, span_group *found) {
    *found = (span_group){0};
    if (group < 0)
        return true; /* nothing: what `TfioStoreRaise` needs to get behind the last block */
    if (group >= asked->group_rows - (asked->lanes > 0 ? 0 : 1))
        return fail(&now->why, TF_INVALID_ARGUMENT, "there is no group %" PRId64, group);
    size_t lanes = 0;
    int64_t idle = 0;
    const int64_t *bounds = group_lanes(asked, group, &lanes);
    bool right = 0 <= bounds[0] && bounds[lanes] <= asked->span_rows;
    for (size_t i = 0; i < lanes; i++) right = right && bounds[i] <= bounds[i + 1];
    if (!right)
        return fail(&now->why, TF_INVALID_ARGUMENT, "group %" PRId64 " makes no sense", group);
    found->first = bounds[0];
    found->last = bounds[lanes];
    for (int64_t s = found->first; s < found->last; s++) {
        const span_row *span = input_span(now, asked, s);
        if (span == NULL || !add_span(now, asked, span, &found->records, &idle)) return false;
    }
    return true;
}

const int64_t *group_lanes(const blocks_request *asked, int64_t group, size_t *lanes) {
    *lanes = asked->lanes > 0 ? (size_t)asked->lanes : 1;
    return asked->groups + group * (asked->lanes > 0 ? asked->lanes + 1 : 1);
}

/* A table claims what it likes: nothing is allocated for more records than its bytes can hold. */
bool check_span(kernel_call *now, const blocks_request *asked, const span_row *span) {
    if (span->block < 0 || span->block >= asked->table_rows)
        return fail(&now->why, TF_INVALID_ARGUMENT, "there is no block %" PRId64, span->block);
    const block_row *row = &asked->table[span->block];
    bool right = 0 <= row->start && row->start <= row->stop && 0 <= row->raw_start &&
                 row->raw_start <= row->raw_stop && 0 <= row->records &&
                 row->records <= (row->raw_stop - row->raw_start) / TFRECORD_OVERHEAD &&
                 0 <= span->skip && 0 <= span->take;
    return right ||
           fail(&now->why, TF_INVALID_ARGUMENT, "block %" PRId64 " makes no sense", span->block);
}

const span_row *input_span(kernel_call *now, const blocks_request *asked, int64_t s) {
    if (s >= 0 && s < asked->span_rows)
        return check_span(now, asked, &asked->spans[s]) ? &asked->spans[s] : NULL;
    fail(&now->why, TF_INVALID_ARGUMENT, "there is no span %" PRId64, s);
    return NULL;
}

bool each_span(kernel_call *now, const blocks_request *asked, span_visitor *visit, void *state) {
    span_group group;
    for (int64_t i = 0; i < asked->wanted_rows; i++) {
        if (!input_group(now, asked, wanted_group(asked, i), &group)) return false;
        for (int64_t s = group.first; s < group.last; s++)
            if (!visit(now, asked, &asked->spans[s], state)) return false;
    }
    return true;
}

int64_t span_records(const blocks_request *asked, const span_row *span) {
    const block_row *row = &asked->table[span->block];
    int64_t left = row->records > span->skip ? row->records - span->skip : 0;
    return span->take < left ? span->take : left;
}

int64_t file_blocks(const blocks_request *asked, int64_t block) {
    int64_t file = asked->table[block].file, first = block, last = block;
    while (first > 0 && asked->table[first - 1].file == file) first--;
    while (last < asked->table_rows - 1 && asked->table[last + 1].file == file) last++;
    return last - first + 1;
}

bool input_block(kernel_call *now, const blocks_request *asked, const span_row *span,
                 named_block *named) {
    const block_row *row = &asked->table[span->block];
    named->block = (block_request){
        .url = named->url,
        .codec = named->codec,
        .version = named->version,
        .start = row->start,
        .stop = row->stop,
        .raw_start = row->raw_start,
        .raw_stop = row->raw_stop,
        .records = row->records,
        .sums = row->sums,
    };
    return input_text(now, FILES, row->file, named->url, sizeof named->url) &&
           input_text(now, CODECS, row->file, named->codec, sizeof named->codec) &&
           input_text(now, VERSIONS, row->file, named->version, sizeof named->version);
}
