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

static block_row table[BLOCKS];
static span_row spans[BLOCKS];
static int64_t groups[GROUPS_COUNT + 1];
static TF_TString url, codec, version;
static TF_Tensor names[3] = {{TF_STRING, 1, {1}, &url},
                             {TF_STRING, 1, {1}, &codec},
                             {TF_STRING, 1, {1}, &version}};
static window_cache *all;
static atomic_int next_row, seen[BLOCKS * RECORDS];

static void begin_call(kernel_call *now, blocks_request *asked) {
    memset(now, 0, sizeof *now);
    for (int i = FILES; i <= VERSIONS; i++) now->inputs[i] = &names[i - FILES];
    *asked = (blocks_request){.table = table,
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

static void check_batch(const record_window *from, kernel_call *now, int64_t group, int64_t batch,
                        const blocks_request *asked) {
    const ex_bytes *records = records_all(window_records(from));
    size_t good = records_count(window_records(from)), first = (size_t)batch * BATCH;
    if (is_whole(group))
        CHECK(good == GROUP_RECORDS && window_damage(from)->code == TF_OK);
    else
        CHECK(good < GROUP_RECORDS && window_damage(from)->code != TF_OK);
    for (size_t i = first; i < first + BATCH && i < good; i++) {
        int number = atoi((const char *)records[i].data);
        const span_row *span = NULL;
        int64_t offset = 0;
        CHECK(window_place(from, now, asked, records[i].data, &span, &offset));
        CHECK(span->block == number / RECORDS);
        CHECK(offset == (int64_t)number * (RECORD + TFRECORD_OVERHEAD));
        seen[number]++;
    }
}

static void *work(void *argument) {
    read_settings settings = {.options = "{}", .verify = true, .limit = 1 << 20};
    int row;
    (void)argument;
    while ((row = next_row++) < ROUNDS * GROUPS_COUNT * BATCHES) {
        int64_t group = row / BATCHES % GROUPS_COUNT, batch = row % BATCHES;
        uint64_t seed = (uint64_t)(row / (GROUPS_COUNT * BATCHES));
        kernel_call now;
        blocks_request asked;
        begin_call(&now, &asked);
        shared_window *held = windows_take(all, &now, &asked, group, seed, BATCH);
        CHECK(held != NULL);
        record_window *from = windows_window(held);
        window_read(from, &now, &asked, &settings, &seed);
        CHECK(now.why.code == TF_OK && window_expected(from) == GROUP_RECORDS);
        check_batch(from, &now, group, batch, &asked);
        windows_give(all, held);
    }
    return NULL;
}

static void check_refusals(void) {
    kernel_call now;
    blocks_request asked;
    begin_call(&now, &asked);
    CHECK(windows_take(all, &now, &asked, GROUPS_COUNT, 0, 1) == NULL);
    CHECK(now.why.code == TF_INVALID_ARGUMENT);
    begin_call(&now, &asked);
    int64_t records = table[0].records;
    table[0].records = INT64_MAX / 2; /* more than its bytes hold: nothing is allocated for them */
    CHECK(windows_take(all, &now, &asked, 0, 0, 1) == NULL);
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
        table[b] = (block_row){0, at, at + BLOCK_BYTES, at, at + BLOCK_BYTES, RECORDS, {0, -1}};
        spans[b] = (span_row){b, 0, RECORDS};
    }
    for (int64_t g = 0; g <= GROUPS_COUNT; g++) groups[g] = g * SPANS_OF_GROUP;
    all = windows_new();
    check_refusals();
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    windows_delete(all);
    lent_forget();
    CHECK(lent_now == 0);
    for (int i = 0; i < BLOCKS * RECORDS; i++)
        if (is_whole(i / GROUP_RECORDS)) CHECK(seen[i] == ROUNDS);
    printf("%d batches\n", ROUNDS * GROUPS_COUNT * BATCHES);
    return 0;
}
