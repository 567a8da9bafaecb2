/* Records that wait, picked by many calls at once in a random order: run under ASan, UBSan and TSan by
 * `make test-tensorflow-c`. TensorFlow's tensors are stand-ins. */
#define _DEFAULT_SOURCE
enum { BLOCKS = 60, RECORDS = 50, BATCH = 25, THREADS = 8, EPOCHS = 6 };
enum { ALL_RECORDS = BLOCKS * RECORDS, BATCHES = ALL_RECORDS / BATCH };
enum { REFUSED = 22, DAMAGED = 37, FROM = 20 };

#include "tensorflow/ops/op_held.h"
#include "stand_in.h"
#include "tensors.h"

static op_block_row table[BLOCKS];
static TF_TString url, codec, version;
static TF_Tensor names[3] = {{TF_STRING, 1, {1}, &url},
                             {TF_STRING, 1, {1}, &codec},
                             {TF_STRING, 1, {1}, &version}};
static int64_t picks[EPOCHS][ALL_RECORDS];
static op_held *all;
static atomic_int next_batch, seen[ALL_RECORDS];

static const op_settings settings = {.options = "{}", .verify = true, .max_record_bytes = 1 << 20};

static void begin_call(op_call *call, op_request *asked) {
    memset(call, 0, sizeof *call);
    for (int i = FILES; i <= VERSIONS; i++) call->inputs[i] = &names[i - FILES];
    *asked = (op_request){.settings = &settings, .table = table, .table_rows = BLOCKS, .files = 1};
}

static bool is_good(int64_t pick) {
    const int64_t block = pick >> 32, index = pick & UINT32_MAX;
    return block != REFUSED && (block != DAMAGED || index < FROM);
}

/* A batch with a record that can't be had fails, and names why. */
static void take_batch(int64_t epoch, const int64_t *batch) {
    op_call call;
    op_request asked;
    bool good = true;
    begin_call(&call, &asked);
    for (int i = 0; i < BATCH; i++) good = good && is_good(batch[i]);
    op_held_picks *taken = op_held_take(all, &call, &asked, epoch, batch, BATCH);
    CHECK((taken != NULL) == good && (call.why.code == TF_OK) == good);
    for (int i = 0; i < BATCH && taken != NULL; i++) {
        const int number = atoi((const char *)op_held_records(taken)[i].data);
        CHECK(number == (batch[i] >> 32) * RECORDS + (batch[i] & UINT32_MAX));
        seen[number]++;
    }
    op_held_give(taken);
}

static void *work(void *argument) {
    int batch;
    (void)argument;
    while ((batch = next_batch++) < EPOCHS * BATCHES)
        take_batch(batch / BATCHES, picks[batch / BATCHES] + batch % BATCHES * BATCH);
    return NULL;
}

static void shuffle_picks(int64_t *epoch) {
    for (int64_t i = 0; i < ALL_RECORDS; i++) epoch[i] = i / RECORDS << 32 | i % RECORDS;
    for (int64_t left = ALL_RECORDS; left > 1; left--) {
        const int64_t other = rand() % left, moved = epoch[left - 1];
        epoch[left - 1] = epoch[other];
        epoch[other] = moved;
    }
}

static void check_refusals(void) {
    const int64_t wrong[] = {-1, (int64_t)BLOCKS << 32, RECORDS};
    op_call call;
    op_request asked;
    for (int i = 0; i < 3; i++) {
        begin_call(&call, &asked);
        CHECK(op_held_take(all, &call, &asked, 0, &wrong[i], 1) == NULL);
        CHECK(call.why.code == TF_INVALID_ARGUMENT);
    }
}

int main(void) {
    pthread_t threads[THREADS];
    use_tensors();
    use_lender();
    url.opaque[0] = (uintptr_t) "memory://blocks";
    codec.opaque[0] = version.opaque[0] = (uintptr_t) "";
    for (int64_t b = 0; b < BLOCKS; b++) {
        const int64_t at = b * BLOCK_BYTES;
        table[b] = (op_block_row){0, at, at + BLOCK_BYTES, at, at + BLOCK_BYTES, RECORDS, {0, -1}};
    }
    for (int e = 0; e < EPOCHS; e++) shuffle_picks(picks[e]);
    all = op_held_new();
    check_refusals();
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    /* what was taken before is read once more */
    take_batch(EPOCHS - 1, picks[EPOCHS - 1]);
    op_held_delete(all);
    op_lent_forget();
    CHECK(lent_now == 0);
    for (int i = 0; i < ALL_RECORDS; i++) CHECK(seen[i] <= EPOCHS + 1);
    printf("%d batches\n", EPOCHS * BATCHES);
    return 0;
}
