/* Blocks: which of them a call asks for, where they are kept meanwhile, and the records of their spans. */
#ifndef TFIO_STORE_OP_BLOCKS_H
#define TFIO_STORE_OP_BLOCKS_H

#include "tensorflow/ops/op_call.h"

/* --- what a call asks for --------------------------------------------------------------------- */

/* Which blocks a call of the block ops asks for. See `Blocks` in tfio_store/tf/dataset/spans.py. */

enum { MARK_BITS = 32 };

/* The inputs that `op_input_request` reads, in this order. */
#define REQUEST_INPUTS                                                                             \
    "files: string", "codecs: string", "versions: string", "table: int64", "spans: int64",         \
        "groups: int64", "mark: int64", "wanted: int64"
enum { FILES, CODECS, VERSIONS, TABLE, SPANS, GROUPS, MARK, WANTED, REQUEST_INPUT_COUNT };

/* A row of the block table. */
typedef struct {
    int64_t file, start, stop, raw_start, raw_stop, records;
    op_sums sums;
} op_block_row;

/* Records [skip, skip + take) of a block. In a lane, take = 0: `skip` turns that give nothing. */
typedef struct {
    int64_t block, skip, take;
} op_span;

/* The spans of the groups that are wanted, and how to read them. */
typedef struct {
    const op_settings *settings;
    const op_block_row *table;
    const op_span *spans;
    const int64_t *groups; /* group g is spans [groups[g], groups[g + 1]) … */
    int64_t lanes; /* … or, if not 0, a row of the bounds of so many lanes, which take turns */
    const int64_t *mark;   /* of the versions of the files; NULL: numbers have no marks */
    const int64_t *wanted; /* for `op_wanted_group` */
    int64_t table_rows, span_rows, group_rows, wanted_rows, files;
} op_request;

bool op_input_request(op_call *call, const op_settings *settings, op_request *asked);

/* Whether a number does not have the mark of other files than those of the mark `now_there`. */
bool op_check_mark(op_call *call, int64_t number, int64_t now_there);

/* The same of the first so many wanted groups. */
bool op_check_marks(op_call *call, const op_request *asked, int64_t numbers);

/* The group of a number that has a mark; negative: nothing. */
int64_t op_marked_group(int64_t number);

/* The i-th group that is wanted; negative: nothing. */
int64_t op_wanted_group(const op_request *asked, int64_t i);

/* The spans of a group, and the records that they announce. */
typedef struct {
    int64_t first, last; /* spans [first, last) */
    int64_t records;
} op_group;

/* A group whose spans and their blocks make sense, and together too; no spans for a negative number. */
bool op_input_group(op_call *call, const op_request *asked, int64_t group, op_group *found);

/* The bounds of the lanes of a group that `op_input_group` found. Without lanes it is one. */
const int64_t *op_group_lanes(const op_request *asked, int64_t group, size_t *lanes);

/* Whether a span that an op has made, and its block, make sense. */
bool op_check_span(op_call *call, const op_request *asked, const op_span *span);

/* Span `s` if it and its block make sense, or NULL. */
const op_span *op_input_span(op_call *call, const op_request *asked, int64_t s);

/* What is done with each span that a call asks for, in order; false ends it. */
typedef bool op_span_visitor(op_call *call, const op_request *asked, const op_span *span,
                             void *state);

/* Each group is checked before its spans are visited. */
bool op_each_span(op_call *call, const op_request *asked, op_span_visitor *visit, void *state);

/* How many records of its block a span has. */
int64_t op_span_records(const op_request *asked, const op_span *span);

/* A block, and the memory of its names. */
typedef struct {
    op_block block;
    char url[MAX_NAME], codec[MAX_CODEC], version[MAX_VERSION];
} op_named_block;

bool op_input_block(op_call *call, const op_request *asked, const op_span *span,
                    op_named_block *named);

/* --- blocks that are kept --------------------------------------------------------------------- */

/* Blocks that Python fetches and decompresses, or that lie in raw local files, for the calls of the ops
 * that each take some of their records: fetched ahead, decompressed and checked once, and let go when the last record was taken.
 * There is no other place where blocks are kept.
 *
 * Only ever a cache: whatever is not found is fetched. At most LENT_BYTES of blocks are kept, and none
 * is used that nobody has come for in LENT_SECONDS (an iterator was dropped). A new iterator begins
 * without those whose version nobody knows: the file may be another by then.
 */

#define LENT_BYTES ((size_t)256 << 20)
#define LENT_SECONDS 30
#define LENT_MOMENT 100000000 /* nanoseconds for which a call waits */

typedef struct op_lent op_lent;

/* Has the block fetched, unless it is or was. */
void op_lent_begin(const op_block *block);

/* Has the block fetched as well, and waits a moment for it. False: it is still on its way. */
bool op_lent_await(const op_block *block);

/* The block with all its records looked up, held until `op_lent_release`; `taking` of them are used up by
 * this. NULL: it could not be had. */
op_lent *op_lent_take(const op_block *block, int64_t taking, failure *why);
void op_lent_release(op_lent *block);

/* Drops the blocks of no known version, and those that nobody came for; calls that hold one keep it. */
void op_lent_forget(void);

/* In a forked child, where nobody goes on with what its parent began. */
void op_lent_after_fork(void);

/* Its good records, and what is wrong behind the last of them (TF_OK: nothing). */
const op_part *op_lent_records(const op_lent *block);
const failure *op_lent_damage(const op_lent *block);

/* --- runs ------------------------------------------------------------------------------------- */

/* Runs: the records of one span, wherever they are read from. */

/* Records that were read, and what their bytes belong to. */
typedef struct {
    op_part found;
    op_lent *lent; /* NULL: `found` owns them */
    size_t idle;   /* turns that give nothing */
} op_run;

/* Reads a span of a group that was checked. False, with call->why, leaves the good records before the
 * damage in next->found. `next` must be zero. */
bool op_run_read(op_call *call, const op_request *asked, const op_span *span, op_run *next);

/* Idempotent. */
void op_run_release(op_run *done);

/* The records of lanes, a record of each in turn; lane i is runs [bounds[i], bounds[i + 1]). Where a
 * lane of `broken` (NULL: none is) has ended, all end, and *stopped is that lane. NULL: no memory. */
op_records *op_runs_join(const op_run *runs, const size_t *bounds, size_t lanes, const bool *broken,
                         size_t *stopped, failure *why);

#endif
