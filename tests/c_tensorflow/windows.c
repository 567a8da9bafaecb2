/* Windows that many calls read at once, each some of the blocks: run under ASan, UBSan and TSan by
 * `make test-tensorflow-c`. TensorFlow's tensors are stand-ins. */
#define _DEFAULT_SOURCE
enum { BLOCKS = 60, RECORDS = 50, GROUPS_COUNT = 12, BATCH = 25, THREADS = 8 };
enum { SPANS_OF_GROUP = BLOCKS / GROUPS_COUNT, GROUP_RECORDS = SPANS_OF_GROUP * RECORDS };
enum { BATCHES = GROUP_RECORDS / BATCH, ROUNDS = 6 };
enum { REFUSED = 22, DAMAGED = 37, FROM = 20 };

#include "tensorflow/ops/op_window.h"
#include "stand_in.h"
#include "tensors.h"

/* --- calls -------------------------------------------------------------------------------------- */

static op_block_row table[BLOCKS];
static op_span spans[BLOCKS];
static int64_t groups[GROUPS_COUNT + 1];
static TF_TString url, codec, version;
static TF_Tensor names[3] = {{TF_STRING, 1, {1}, &url},
                             {TF_STRING, 1, {1}, &codec},
                             {TF_STRING, 1, {1}, &version}};
static op_windows *all;
static atomic_int next_row, seen[BLOCKS * RECORDS];

static const op_settings settings = {.options = "{}", .verify = true, .max_record_bytes = 1 << 20};

static void begin_call(op_call *call, op_request *asked) {
    memset(call, 0, sizeof *call);
    for (int i = FILES; i <= VERSIONS; i++) call->inputs[i] = &names[i - FILES];
    *asked = (op_request){.settings = &settings,
                          .table = table,
                          .spans = spans,
                          .groups = groups,
                          .table_rows = BLOCKS,
                          .span_rows = BLOCKS,
                          .group_rows = GROUPS_COUNT + 1,
                          .files = 1};
}

static bool is_whole(int64_t group) {
    return REFUSED / SPANS_OF_GROUP != group && DAMAGED / SPANS_OF_GROUP != group;
}

static void check_batch(const op_window *from, op_call *call, int64_t group, int64_t batch,
                        const op_request *asked) {
    const ex_bytes *records = op_records_all(op_window_records(from));
    size_t good = op_records_count(op_window_records(from)), first = (size_t)batch * BATCH;
    if (is_whole(group))
        CHECK(good == GROUP_RECORDS && op_window_damage(from)->code == TF_OK);
    else
        CHECK(good < GROUP_RECORDS && op_window_damage(from)->code != TF_OK);
    for (size_t i = first; i < first + BATCH && i < good; i++) {
        int number = atoi((const char *)records[i].data);
        const op_span *span = NULL;
        int64_t offset = 0;
        CHECK(op_window_place(from, call, asked, records[i].data, &span, &offset));
        CHECK(span->block == number / RECORDS);
        CHECK(offset == (int64_t)number * (RECORD + TFRECORD_OVERHEAD));
        seen[number]++;
    }
}

static void *work(void *argument) {
    int row;
    (void)argument;
    while ((row = next_row++) < ROUNDS * GROUPS_COUNT * BATCHES) {
        int64_t group = row / BATCHES % GROUPS_COUNT, batch = row % BATCHES;
        uint64_t seed = (uint64_t)(row / (GROUPS_COUNT * BATCHES));
        op_call call;
        op_request asked;
        begin_call(&call, &asked);
        op_shared_window *held = op_windows_take(all, &call, &asked, group, seed, BATCH);
        CHECK(held != NULL);
        op_window *from = op_windows_window(held);
        op_window_read(from, &call, &asked, &seed);
        CHECK(call.why.code == TF_OK && op_window_expected(from) == GROUP_RECORDS);
        check_batch(from, &call, group, batch, &asked);
        op_windows_give(all, held);
    }
    return NULL;
}

static void check_refusals(void) {
    op_call call;
    op_request asked;
    begin_call(&call, &asked);
    CHECK(op_windows_take(all, &call, &asked, GROUPS_COUNT, 0, 1) == NULL);
    CHECK(call.why.code == TF_INVALID_ARGUMENT);
    begin_call(&call, &asked);
    int64_t records = table[0].records;
    table[0].records = INT64_MAX / 2; /* more than its bytes hold: nothing is allocated for them */
    CHECK(op_windows_take(all, &call, &asked, 0, 0, 1) == NULL);
    table[0].records = records;
}

int main(void) {
    pthread_t threads[THREADS];
    use_tensors();
    use_lender();
    url.opaque[0] = (uintptr_t) "memory://blocks";
    codec.opaque[0] = version.opaque[0] = (uintptr_t) "";
    for (int64_t b = 0; b < BLOCKS; b++) {
        int64_t at = b * BLOCK_BYTES;
        table[b] = (op_block_row){0, at, at + BLOCK_BYTES, at, at + BLOCK_BYTES, RECORDS, {0, -1}};
        spans[b] = (op_span){b, 0, RECORDS};
    }
    for (int64_t g = 0; g <= GROUPS_COUNT; g++) groups[g] = g * SPANS_OF_GROUP;
    all = op_windows_new();
    check_refusals();
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    op_windows_delete(all);
    op_lent_forget();
    CHECK(lent_now == 0);
    for (int i = 0; i < BLOCKS * RECORDS; i++)
        if (is_whole(i / GROUP_RECORDS)) CHECK(seen[i] == ROUNDS);
    printf("%d batches\n", ROUNDS * GROUPS_COUNT * BATCHES);
    return 0;
}
