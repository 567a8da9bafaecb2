#include "tensorflow/ops/op_blocks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tfrecord/tfrecord.h"

enum { TABLE_COLUMNS = 8, SPAN_COLUMNS = 3 };

/* --- marks, as tfio_store/tf/dataset/spans.py has them ---------------------------------------- */

enum { PLACE_BITS = 12 };

static const char REPLACED[] =
    "the iterator's state was taken of other files than those that are there now: they, or "
    "their manifest, were replaced since; begin anew, without this state";

/* Whether they are of other files in the same place. Of no files (0) nothing is known. */
static bool other_files(uint32_t saved, uint32_t call) {
    const uint32_t differ = saved ^ call;
    const bool same_place = (differ & ((1u << PLACE_BITS) - 1)) == 0;
    return saved != 0 && call != 0 && same_place && differ != 0;
}

bool op_check_mark(op_call *call, int64_t number, int64_t now_there) {
    return number < 0 || !other_files((uint32_t)number, (uint32_t)now_there) ||
           fail(&call->why, TF_FAILED_PRECONDITION, "%s", REPLACED);
}

bool op_check_marks(op_call *call, const op_request *asked, int64_t numbers) {
    for (int64_t i = 0; asked->mark != NULL && i < numbers; i++)
        if (!op_check_mark(call, asked->wanted[i], asked->mark[0])) return false;
    return true;
}

int64_t op_marked_group(int64_t number) { return number < 0 ? number : number >> MARK_BITS; }

int64_t op_wanted_group(const op_request *asked, int64_t i) {
    return asked->mark == NULL ? asked->wanted[i] : op_marked_group(asked->wanted[i]);
}

/* ------------------------------------------------------------------------------------------------ */

bool op_input_request(op_call *call, const op_settings *settings, op_request *asked) {
    const int64_t *table = NULL, *spans = NULL, bounds = op_input_columns(call, GROUPS);
    const TF_TString *files = NULL;
    asked->settings = settings;
    asked->lanes = bounds - 1;
    if (!op_input_strings(call, FILES, &files, &asked->files) ||
        !op_input_rows(call, TABLE, TABLE_COLUMNS, &table, &asked->table_rows) ||
        !op_input_rows(call, SPANS, SPAN_COLUMNS, &spans, &asked->span_rows) ||
        !op_input_rows(call, GROUPS, bounds, &asked->groups, &asked->group_rows) ||
        !op_input_option(call, MARK, &asked->mark) ||
        !op_input_rows(call, WANTED, 1, &asked->wanted, &asked->wanted_rows))
        return false;
    asked->table = (const op_block_row *)(const void *)table;
    asked->spans = (const op_span *)(const void *)spans;
    return true;
}

/* Idle turns are never more than the files, each of which ends once: a claim of more would be waited for. */
static bool add_span(op_call *call, const op_request *asked, const op_span *span, int64_t *records,
                     int64_t *idle) {
    const bool turns = asked->lanes > 0 && span->take == 0;
    if (!op_add_claim(call, turns ? idle : records,
                      turns ? span->skip : op_span_records(asked, span)))
        return false;
    return *idle <= asked->files ||
           fail(&call->why, TF_INVALID_ARGUMENT, "%" PRId64 " empty turns make no sense", *idle);
}

bool op_input_group(op_call *call, const op_request *asked, int64_t group, op_group *found) {
    *found = (op_group){0};
    if (group < 0)
        return true; /* nothing: what `TfioStoreRaise` needs to get behind the last block */
    if (group >= asked->group_rows - (asked->lanes > 0 ? 0 : 1))
        return fail(&call->why, TF_INVALID_ARGUMENT, "there is no group %" PRId64, group);
    size_t lanes = 0;
    int64_t idle = 0;
    const int64_t *bounds = op_group_lanes(asked, group, &lanes);
    bool right = 0 <= bounds[0] && bounds[lanes] <= asked->span_rows;
    for (size_t i = 0; i < lanes; i++) right = right && bounds[i] <= bounds[i + 1];
    if (!right)
        return fail(&call->why, TF_INVALID_ARGUMENT, "group %" PRId64 " makes no sense", group);
    found->first = bounds[0];
    found->last = bounds[lanes];
    for (int64_t s = found->first; s < found->last; s++) {
        const op_span *span = op_input_span(call, asked, s);
        if (span == NULL || !add_span(call, asked, span, &found->records, &idle)) return false;
    }
    return true;
}

const int64_t *op_group_lanes(const op_request *asked, int64_t group, size_t *lanes) {
    *lanes = asked->lanes > 0 ? (size_t)asked->lanes : 1;
    return asked->groups + group * (asked->lanes > 0 ? asked->lanes + 1 : 1);
}

/* A table claims what it likes: nothing is allocated for more records than its bytes can hold. */
bool op_check_span(op_call *call, const op_request *asked, const op_span *span) {
    if (span->block < 0 || span->block >= asked->table_rows)
        return fail(&call->why, TF_INVALID_ARGUMENT, "there is no block %" PRId64, span->block);
    const op_block_row *row = &asked->table[span->block];
    bool right = 0 <= row->start && row->start <= row->stop && 0 <= row->raw_start &&
                 row->raw_start <= row->raw_stop && 0 <= row->records &&
                 row->records <= (row->raw_stop - row->raw_start) / TFRECORD_OVERHEAD &&
                 0 <= span->skip && 0 <= span->take;
    return right ||
           fail(&call->why, TF_INVALID_ARGUMENT, "block %" PRId64 " makes no sense", span->block);
}

const op_span *op_input_span(op_call *call, const op_request *asked, int64_t s) {
    if (s >= 0 && s < asked->span_rows)
        return op_check_span(call, asked, &asked->spans[s]) ? &asked->spans[s] : NULL;
    fail(&call->why, TF_INVALID_ARGUMENT, "there is no span %" PRId64, s);
    return NULL;
}

bool op_each_span(op_call *call, const op_request *asked, op_span_visitor *visit, void *state) {
    op_group group;
    for (int64_t i = 0; i < asked->wanted_rows; i++) {
        if (!op_input_group(call, asked, op_wanted_group(asked, i), &group)) return false;
        for (int64_t s = group.first; s < group.last; s++)
            if (!visit(call, asked, &asked->spans[s], state)) return false;
    }
    return true;
}

int64_t op_span_records(const op_request *asked, const op_span *span) {
    const op_block_row *row = &asked->table[span->block];
    int64_t left = row->records > span->skip ? row->records - span->skip : 0;
    return span->take < left ? span->take : left;
}

/* The first row of a file, or where it would stand: rows are in the order of their files. */
static int64_t first_row(const op_request *asked, int64_t file) {
    int64_t low = 0, high = asked->table_rows;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (asked->table[middle].file < file)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t file_blocks(const op_request *asked, int64_t file) {
    return file == INT64_MAX ? 0 : first_row(asked, file + 1) - first_row(asked, file);
}

bool op_input_block(op_call *call, const op_request *asked, const op_span *span,
                    op_named_block *named) {
    const op_block_row *row = &asked->table[span->block];
    named->block = (op_block){
        .settings = asked->settings,
        .url = named->url,
        .codec = named->codec,
        .version = named->version,
        .start = row->start,
        .stop = row->stop,
        .raw_start = row->raw_start,
        .raw_stop = row->raw_stop,
        .records = row->records,
        .sums = row->sums,
        .file_blocks = file_blocks(asked, row->file),
    };
    return op_input_text(call, FILES, row->file, named->url, sizeof named->url) &&
           op_input_text(call, CODECS, row->file, named->codec, sizeof named->codec) &&
           op_input_text(call, VERSIONS, row->file, named->version, sizeof named->version);
}

/* --- runs ------------------------------------------------------------------------------------- */

/* How many bytes of a block to read for the records up to `last` of it: all, unless they are few. */
static int64_t stop_for(const op_block *block, int64_t last) {
    int64_t bytes = block->stop - block->start;
    if (last >= block->records) return block->stop;
    double guess = (double)bytes * (double)last / (double)block->records * 1.1 + 4096;
    return guess < (double)bytes / 2 ? block->start + (int64_t)guess : block->stop;
}

static bool read_local(const op_block *block, op_search *wanted, op_part *found, failure *why) {
    op_file file;
    if (!op_file_open(&file, block->url, block->version, why)) return false;
    int64_t stop = stop_for(block, (int64_t)(wanted->skip + wanted->take));
    for (;;) {
        wanted->whole = stop == block->stop;
        bool good =
            op_file_read(&file, (uint64_t)block->start, (uint64_t)stop, &found->bytes, why) &&
            op_part_search(found, wanted, why);
        if (wanted->whole || !good || found->count == wanted->take) {
            op_file_close(&file);
            return good;
        }
        op_part_release(found); /* the records are longer there than on average */
        stop = block->stop;
    }
}

/* Some of the records of a block that has more of them. */
static op_part slice(const op_part *whole, size_t skip, size_t take) {
    size_t from = skip < whole->count ? skip : whole->count;
    size_t left = whole->count - from;
    return (op_part){.bytes = {.data = whole->bytes.data, .size = whole->bytes.size},
                     .offsets = whole->offsets + from,
                     .lengths = whole->lengths + from,
                     .count = take < left ? take : left,
                     .end = whole->end};
}

/* With skip_corrupt it is read whole, since nobody knows which of its records are good. */
static bool read_lent(const op_block *block, const op_search *wanted, op_run *next, failure *why) {
    bool whole = block->settings->skip_corrupt;
    next->lent = op_lent_take(block, whole ? block->records : (int64_t)wanted->take, why);
    if (next->lent == NULL) return false;
    next->found = slice(op_lent_records(next->lent), wanted->skip, wanted->take);
    const failure *damage = op_lent_damage(next->lent);
    if (next->found.count == wanted->take || damage->code == TF_OK) return true;
    *why = *damage;
    return false;
}

bool op_run_read(op_call *call, const op_request *asked, const op_span *span, op_run *next) {
    const op_settings *settings = asked->settings;
    op_named_block named;
    if (asked->lanes > 0 && span->take == 0) {
        next->idle = (size_t)span->skip;
        return true;
    }
    if (!op_input_block(call, asked, span, &named)) return false;
    /* of a damaged block, nobody knows how many records it has */
    const int64_t take = settings->skip_corrupt ? span->take : op_span_records(asked, span);
    op_search wanted = {.url = named.url,
                        .base = named.block.raw_start,
                        .skip = (size_t)span->skip,
                        .take = (size_t)take,
                        .verify = settings->verify,
                        .max_record_bytes = settings->max_record_bytes,
                        .size = (size_t)(named.block.raw_stop - named.block.raw_start),
                        .indexed = named.block.sums.behind >= 0,
                        .sums = {-1, -1}};
    /* of some of the records, nobody knows the sum */
    if (!settings->skip_corrupt && span->skip + take == named.block.records)
        wanted.sums = named.block.sums;
    /* several groups of lanes have some records each of a block, which is read and checked once */
    const bool alone = asked->lanes == 0 || wanted.take == (size_t)named.block.records;
    bool good = alone && op_is_raw_local(named.url, named.codec, settings)
                    ? read_local(&named.block, &wanted, &next->found, &call->why)
                    : read_lent(&named.block, &wanted, next, &call->why);
    if (!good || settings->skip_corrupt || next->found.count == wanted.take) return good;
    return fail(&call->why, TF_DATA_LOSS,
                "%s: the data ends inside a block: %zu of its records are missing (offset %" PRId64
                ")",
                named.url, wanted.take - next->found.count,
                named.block.raw_start + (int64_t)next->found.end);
}

void op_run_release(op_run *done) {
    if (done->lent != NULL)
        op_lent_release(done->lent);
    else
        op_part_release(&done->found);
    *done = (op_run){0};
}

/* --- lanes -------------------------------------------------------------------------------------- */

/* Where a lane stands: at a record of a run, or behind so many idle turns of it. */
typedef struct {
    size_t lane, run, last, at;
} lane_place;

/* Whether the lane gives a record in this turn, or another in a later one. */
static bool lane_goes_on(lane_place *of, const op_run *runs) {
    while (of->run < of->last && of->at == runs[of->run].found.count + runs[of->run].idle) {
        of->run++;
        of->at = 0;
    }
    return of->run < of->last;
}

static void lane_give(lane_place *of, const op_run *runs, op_records *records) {
    const op_part *found = &runs[of->run].found;
    const size_t at = of->at++;
    if (at < found->count)
        op_records_put(records, (ex_bytes){found->bytes.data + found->offsets[at],
                                           (size_t)found->lengths[at]});
}

/* Lanes that have ended leave, and the others keep their order. */
static void take_turns(const op_run *runs, lane_place *places, size_t lanes, const bool *broken,
                       size_t *stopped, op_records *records) {
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

op_records *op_runs_join(const op_run *runs, const size_t *bounds, size_t lanes, const bool *broken,
                         size_t *stopped, failure *why) {
    size_t total = 0;
    for (size_t i = bounds[0]; i < bounds[lanes]; i++) total += runs[i].found.count;
    op_records *records = op_records_new(total, why);
    lane_place *places = records == NULL ? NULL : malloc(lanes * sizeof *places);
    if (places == NULL) {
        if (records != NULL) fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
        op_records_delete(records);
        return NULL;
    }
    for (size_t i = 0; i < lanes; i++) places[i] = (lane_place){i, bounds[i], bounds[i + 1], 0};
    if (lanes > 1) {
        take_turns(runs, places, lanes, broken, stopped, records);
    } else {
        for (size_t i = bounds[0]; i < bounds[1]; i++) op_records_add(records, &runs[i].found, why);
        if (broken != NULL && broken[0]) *stopped = 0;
    }
    free(places);
    return records;
}
