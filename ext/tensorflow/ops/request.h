/* Which blocks a call of the block ops asks for. See `Blocks` in tfio_store/tf/dataset/spans.py. */
#ifndef TFIO_STORE_TF_REQUEST_H
#define TFIO_STORE_TF_REQUEST_H

#include "tensorflow/call.h"
#include "tensorflow/ops/lender.h"

enum { MAX_NAME = 4096, MAX_CODEC = 16, MARK_BITS = 32 };

/* The inputs that `input_request` reads, in this order. */
#define REQUEST_INPUTS                                                                             \
    "files: string", "codecs: string", "versions: string", "table: int64", "spans: int64",         \
        "groups: int64", "mark: int64", "wanted: int64"
enum { FILES, CODECS, VERSIONS, TABLE, SPANS, GROUPS, MARK, WANTED, REQUEST_INPUT_COUNT };

/* A row of the block table. */
typedef struct {
    int64_t file, start, stop, raw_start, raw_stop, records;
    block_sums sums;
} block_row;

/* Records [skip, skip + take) of a block. In a lane, take = 0: `skip` turns that give nothing. */
typedef struct {
    int64_t block, skip, take;
} span_row;

/* The spans of the groups that are wanted. */
typedef struct {
    const block_row *table;
    const span_row *spans;
    const int64_t *groups; /* group g is spans [groups[g], groups[g + 1]) … */
    int64_t lanes; /* … or, if not 0, a row of the bounds of so many lanes, which take turns */
    const int64_t *mark;   /* of the versions of the files; NULL: numbers have no marks */
    const int64_t *wanted; /* for `wanted_group` */
    int64_t table_rows, span_rows, group_rows, wanted_rows, files;
} blocks_request;

bool input_request(kernel_call *now, blocks_request *asked);

/* Whether a number does not have the mark of other files than those of the mark `now_there`. */
bool check_mark(kernel_call *now, int64_t number, int64_t now_there);

/* The same of the first so many wanted groups. */
bool check_marks(kernel_call *now, const blocks_request *asked, int64_t numbers);

/* The group of a number that has a mark; negative: nothing. */
int64_t marked_group(int64_t number);

/* The i-th group that is wanted; negative: nothing. */
int64_t wanted_group(const blocks_request *asked, int64_t i);

/* The spans of a group, and the records that they announce. */
typedef struct {
    int64_t first, last; /* spans [first, last) */
    int64_t records;
} span_group;

/* A group whose spans and their blocks make sense, and together too; no spans for a negative number. */
bool input_group(kernel_call *now, const blocks_request *asked, int64_t group, span_group *found);

/* The bounds of the lanes of a group that `input_group` found. Without lanes it is one. */
const int64_t *group_lanes(const blocks_request *asked, int64_t group, size_t *lanes);

/* Whether a span that an op has made, and its block, make sense. */
bool check_span(kernel_call *now, const blocks_request *asked, const span_row *span);

/* Span `s` if it and its block make sense, or NULL. */
const span_row *input_span(kernel_call *now, const blocks_request *asked, int64_t s);

/* What is done with each span that a call asks for, in order; false ends it. */
typedef bool span_visitor(kernel_call *now, const blocks_request *asked, const span_row *span,
                          void *state);

/* Each group is checked before its spans are visited. */
bool each_span(kernel_call *now, const blocks_request *asked, span_visitor *visit, void *state);

/* How many records of its block a span has. */
int64_t span_records(const blocks_request *asked, const span_row *span);

/* A block, and the memory of its names. */
typedef struct {
    block_request block;
    char url[MAX_NAME], codec[MAX_CODEC], version[MAX_VERSION];
} named_block;

/* How many blocks the file of this one has, which stand together in the table. */
int64_t file_blocks(const blocks_request *asked, int64_t block);

bool input_block(kernel_call *now, const blocks_request *asked, const span_row *span,
                 named_block *named);

#endif
