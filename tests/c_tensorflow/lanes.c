/* Groups of lanes, as num_parallel_reads of K files has them: their records come in turns, one of each
 * lane. Many calls read a group's window at once. Run under ASan, UBSan and TSan by
 * `make test-tensorflow-c`. TensorFlow's tensors are stand-ins. */
#define _DEFAULT_SOURCE
enum { BLOCKS = 40, RECORDS = 30, REFUSED = 36, DAMAGED = 39, FROM = 7 };
enum { LANES = 4, GROUPS_COUNT = 64, MOST_SPANS = 6, THREADS = 6, ROUNDS = 4 };
enum { FIRST_BAD = 36, MOST_RECORDS = LANES * MOST_SPANS * RECORDS };

#include "tensorflow/ops/op_window.h"
#include "stand_in.h"
#include "tensors.h"

/* --- groups, and what TensorFlow's interleave would make of them ------------------------------------ */

static op_block_row table[BLOCKS];
static op_span spans[GROUPS_COUNT * LANES * MOST_SPANS];
static int64_t groups[GROUPS_COUNT][LANES + 1], span_count;
static int wanted[GROUPS_COUNT][MOST_RECORDS], wanted_count[GROUPS_COUNT];
static TF_TString url[2], codec[2], version[2];
static TF_Tensor names[3] = {{TF_STRING, 1, {2}, url},
                             {TF_STRING, 1, {2}, codec},
                             {TF_STRING, 1, {2}, version}};
static op_windows *all;
static atomic_int next_row;

static unsigned dice(unsigned below) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

/* A lane's turns: the number of a record, or -1 for a turn that gives nothing. */
static int add_lane(int turns[MOST_SPANS * RECORDS], unsigned blocks) {
    int count = 0;
    for (unsigned left = dice(MOST_SPANS + 1); left > 0; left--) {
        if (dice(4) == 0) { /* files that end here */
            int64_t idle = dice(3);
            spans[span_count++] = (op_span){(int64_t)dice(blocks), idle, 0};
            for (; idle > 0; idle--) turns[count++] = -1;
            continue;
        }
        const unsigned skip = dice(RECORDS), take = 1 + dice(RECORDS - skip);
        const unsigned block = dice(blocks);
        spans[span_count++] = (op_span){(int64_t)block, skip, take};
        for (unsigned i = 0; i < take; i++) turns[count++] = (int)(block * RECORDS + skip + i);
    }
    return count;
}

/* Turn after turn, one of each lane that has not ended, as long as there is one. */
static void add_group(int64_t group) {
    static int turns[LANES][MOST_SPANS * RECORDS];
    int counts[LANES], longest = 0;
    for (int lane = 0; lane < LANES; lane++) {
        groups[group][lane] = span_count;
        counts[lane] = add_lane(turns[lane], FIRST_BAD);
        if (counts[lane] > longest) longest = counts[lane];
    }
    groups[group][LANES] = span_count;
    for (int turn = 0; turn < longest; turn++)
        for (int lane = 0; lane < LANES; lane++)
            if (turn < counts[lane] && turns[lane][turn] >= 0)
                wanted[group][wanted_count[group]++] = turns[lane][turn];
}

/* --- calls -------------------------------------------------------------------------------------- */

static const op_settings settings = {.options = "{}", .verify = true, .max_record_bytes = 1 << 20};

static void begin_call(op_call *call, op_request *asked) {
    memset(call, 0, sizeof *call);
    for (int i = FILES; i <= VERSIONS; i++) call->inputs[i] = &names[i - FILES];
    *asked = (op_request){.settings = &settings,
                          .table = table,
                          .spans = spans,
                          .groups = groups[0],
                          .lanes = LANES,
                          .table_rows = BLOCKS,
                          .span_rows = span_count,
                          .group_rows = GROUPS_COUNT,
                          .files = 2 * LANES * MOST_SPANS};
}

static void check_group(const op_window *from, op_call *call, int64_t group,
                        const op_request *asked) {
    const ex_bytes *records = op_records_all(op_window_records(from));
    CHECK(op_window_damage(from)->code == TF_OK && op_window_expected(from) == wanted_count[group]);
    CHECK(op_records_count(op_window_records(from)) == (size_t)wanted_count[group]);
    for (int i = 0; i < wanted_count[group]; i++) {
        const op_span *span = NULL;
        int64_t offset = 0;
        CHECK(atoi((const char *)records[i].data) == wanted[group][i]);
        CHECK(op_window_place(from, call, asked, records[i].data, &span, &offset));
        CHECK(offset == (int64_t)wanted[group][i] * (RECORD + TFRECORD_OVERHEAD));
    }
}

static void *work(void *argument) {
    int row;
    (void)argument;
    while ((row = next_row++) < ROUNDS * THREADS * GROUPS_COUNT) {
        const int64_t group = row / THREADS % GROUPS_COUNT;
        op_call call;
        op_request asked;
        begin_call(&call, &asked);
        op_shared_window *held = op_windows_take(all, &call, &asked, group, 0, 1);
        CHECK(held != NULL);
        op_window *from = op_windows_window(held);
        op_window_read(from, &call, &asked, NULL);
        CHECK(call.why.code == TF_OK);
        check_group(from, &call, group, &asked);
        op_windows_give(all, held);
    }
    return NULL;
}

/* --- one call alone ----------------------------------------------------------------------------- */

static op_window *group_of(op_call *call, op_request *asked, const int64_t *bounds) {
    begin_call(call, asked);
    asked->groups = bounds;
    asked->group_rows = 1;
    return op_window_new(call, asked, 0);
}

/* Of lanes with damage in one, no order is known: there are no records. */
static void check_damage(void) {
    op_call call;
    op_request asked;
    const int64_t before = span_count;
    for (int64_t bad = REFUSED; bad <= DAMAGED; bad += DAMAGED - REFUSED) {
        int64_t bounds[LANES + 1];
        for (int lane = 0; lane <= LANES; lane++) bounds[lane] = before + lane;
        for (int lane = 0; lane < LANES; lane++)
            spans[before + lane] = (op_span){lane == 2 ? bad : lane, 0, RECORDS};
        span_count = before + LANES;
        op_window *of = group_of(&call, &asked, bounds);
        CHECK(of != NULL);
        op_window_read(of, &call, &asked, NULL);
        CHECK(op_records_count(op_window_records(of)) == 0);
        CHECK(op_window_damage(of)->code == (bad == REFUSED ? TF_UNAVAILABLE : TF_DATA_LOSS));
        op_window_delete(of);
    }
    span_count = before;
}

static void check_refusals(void) {
    op_call call;
    op_request asked;
    int64_t bounds[LANES + 1] = {0, 1, 0, 1, 1}; /* a lane that ends before it begins */
    CHECK(group_of(&call, &asked, bounds) == NULL && call.why.code == TF_INVALID_ARGUMENT);
    int64_t over[LANES + 1] = {0, 0, 0, 0, span_count + 1};
    CHECK(group_of(&call, &asked, over) == NULL && call.why.code == TF_INVALID_ARGUMENT);
    int64_t below[LANES + 1] = {-1, 0, 0, 0, 0};
    CHECK(group_of(&call, &asked, below) == NULL && call.why.code == TF_INVALID_ARGUMENT);
    begin_call(&call, &asked);
    CHECK(op_window_new(&call, &asked, GROUPS_COUNT) ==
          NULL); /* a row each: no end behind the last */
    CHECK(call.why.code == TF_INVALID_ARGUMENT);
    /* idle turns without end are not waited for, nor many of a few turns each */
    const int64_t most = asked.files, turns[] = {INT64_MAX / 2, most / 2 + 1, INT64_MAX};
    const op_span kept[2] = {spans[0], spans[1]};
    const int64_t idle[LANES + 1] = {0, 1, 2, 2, 2};
    for (int i = 0; i < 3; i++) {
        spans[0] = spans[1] = (op_span){0, turns[i], 0};
        CHECK(group_of(&call, &asked, idle) == NULL && call.why.code == TF_INVALID_ARGUMENT);
    }
    memcpy(spans, kept, sizeof kept);
}

/* A call whose request has fewer spans than the one that a window was made for reads none behind its own. */
static void check_another_request(void) {
    op_call call;
    op_request asked;
    op_window *of = group_of(&call, &asked, groups[1]);
    CHECK(of != NULL && groups[1][LANES] > groups[1][0]);
    asked.span_rows = groups[1][0];
    op_window_read(of, &call, &asked, NULL);
    CHECK(op_window_damage(of)->code == TF_INVALID_ARGUMENT);
    op_window_delete(of);
}

/* A broken lane ends all the others at its turn: what on_corrupt="skip" is told. */
static void check_broken(void) {
    static uint8_t bytes[RECORDS];
    static int64_t offsets[RECORDS], lengths[RECORDS];
    for (int64_t i = 0; i < RECORDS; i++) {
        bytes[i] = (uint8_t)i;
        offsets[i] = i;
        lengths[i] = 1;
    }
    op_run runs[3] = {{.idle = 0}};
    const size_t counts[3] = {5, 2, 4}, bounds[4] = {0, 1, 2, 3};
    for (int lane = 0; lane < 3; lane++) {
        runs[lane].found.bytes = (op_chunk){.data = bytes, .size = RECORDS};
        runs[lane].found.offsets = offsets;
        runs[lane].found.lengths = lengths;
        runs[lane].found.count = counts[lane];
    }
    const bool broken[3] = {false, true, false};
    size_t stopped = 3;
    failure why = {.code = TF_OK};
    op_records *records = op_runs_join(runs, bounds, 3, broken, &stopped, &why);
    CHECK(records != NULL && stopped == 1);
    CHECK(op_records_count(records) == 7); /* two turns of three, and the first lane's third */
    op_records_delete(records);
    runs[1].idle = 2; /* two more turns, in which the others go on */
    records = op_runs_join(runs, bounds, 3, broken, &stopped, &why);
    CHECK(records != NULL && stopped == 1 && op_records_count(records) == 11);
    op_records_delete(records);
}

int main(void) {
    pthread_t threads[THREADS];
    int records = 0;
    use_tensors();
    use_lender();
    for (int i = 0; i < 2; i++) {
        url[i].opaque[0] = (uintptr_t) "memory://blocks";
        codec[i].opaque[0] = version[i].opaque[0] = (uintptr_t) "";
    }
    for (int64_t b = 0; b < BLOCKS; b++) {
        int64_t at = b * BLOCK_BYTES;
        table[b] = (op_block_row){0, at, at + BLOCK_BYTES, at, at + BLOCK_BYTES, RECORDS, {0, -1}};
    }
    for (int64_t g = 0; g < GROUPS_COUNT; g++) add_group(g);
    all = op_windows_new();
    check_refusals();
    check_another_request();
    check_broken();
    check_damage();
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    op_windows_delete(all);
    op_lent_forget();
    CHECK(lent_now == 0);
    for (int g = 0; g < GROUPS_COUNT; g++) records += wanted_count[g];
    printf("%d records of %d groups of %d lanes\n", records, GROUPS_COUNT, LANES);
    return 0;
}
