/* The cache of lent blocks, many threads at once: run under ASan, UBSan and TSan by
 * `make test-tensorflow-c`. */
#define _DEFAULT_SOURCE
#include <unistd.h>

enum { BLOCKS = 40, RECORDS = 64, THREADS = 8, ROUNDS = 4000 };
enum { REFUSED = 7, DAMAGED = 11, FROM = 40 };

#include "stand_in.h"

static void check_records(const op_part *whole, int64_t number, size_t skip, size_t take) {
    uint8_t expected[RECORD];
    for (size_t i = skip; i < skip + take && i < whole->count; i++) {
        fill_record(expected, number, (int64_t)i);
        CHECK(whole->lengths[i] == RECORD);
        CHECK(memcmp(whole->bytes.data + whole->offsets[i], expected, RECORD) == 0);
    }
}

static op_block block_of(const op_settings *settings, const char *url, int64_t number) {
    return (op_block){.settings = settings,
                      .url = url,
                      .codec = "",
                      .version = "",
                      .start = number * BLOCK_BYTES,
                      .stop = (number + 1) * BLOCK_BYTES,
                      .raw_start = number * BLOCK_BYTES,
                      .raw_stop = (number + 1) * BLOCK_BYTES,
                      .records = RECORDS,
                      .sums = {0, -1}};
}

static void *work(void *argument) {
    unsigned seed = *(unsigned *)argument;
    op_settings settings = {.options = "{}", .verify = true, .max_record_bytes = 1 << 20};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t number = rand_r(&seed) % BLOCKS;
        size_t skip = (size_t)rand_r(&seed) % RECORDS, take = (size_t)rand_r(&seed) % 16 + 1;
        op_block asked = block_of(&settings, "memory://block", number);
        failure why;
        if (rand_r(&seed) % 3 == 0) op_lent_begin(&asked);
        if (rand_r(&seed) % 3 == 0) op_lent_await(&asked);
        if (rand_r(&seed) % 500 == 0) op_lent_forget();
        op_lent *block = op_lent_take(&asked, (int64_t)take, &why);
        CHECK((block == NULL) == (number == REFUSED));
        if (block == NULL) {
            CHECK(why.code == TF_UNAVAILABLE);
            continue;
        }
        CHECK(op_lent_records(block)->count == (number == DAMAGED ? FROM : RECORDS));
        CHECK((op_lent_damage(block)->code == TF_DATA_LOSS) == (number == DAMAGED));
        check_records(op_lent_records(block), number, skip, take);
        if (rand_r(&seed) % 50 == 0) usleep(100);
        op_lent_release(block);
    }
    return NULL;
}

/* Whoever takes a block's last record lets it go. */
static void check_let_go(void) {
    op_settings settings = {.options = "{\"alone\": 1}",
                            .verify = true,
                            .max_record_bytes = 1 << 20};
    op_block asked = block_of(&settings, "memory://alone", 0);
    failure why;
    int before = lent_now, reads = read_now;
    for (int i = 0; i < 4; i++) {
        op_lent *block = op_lent_take(&asked, RECORDS / 4, &why);
        CHECK(block != NULL && lent_now == before + 1);
        op_lent_release(block);
    }
    CHECK(lent_now == before && read_now == reads + 1);
}

/* What was begun is read from where it is on its way, once; what nobody came for is dropped; and a
 * new iterator keeps what it can be sure of. */
static void check_begun(void) {
    op_settings settings = {.options = "{\"begun\": 1}",
                            .verify = true,
                            .max_record_bytes = 1 << 20};
    op_block asked = block_of(&settings, "memory://begun", 0);
    failure why;
    int before = begun, reads = read_now;
    op_lent_begin(&asked);
    op_lent_begin(&asked);
    CHECK(begun == before + 1 && begun_now == 1);
    op_lent_forget();
    CHECK(begun_now == 0);
    op_lent_begin(&asked);
    settings.skip_corrupt = true; /* another way to read is another block */
    op_lent_release(op_lent_take(&asked, RECORDS, &why));
    CHECK(begun_now == 1);
    settings.skip_corrupt = false;
    op_lent_release(op_lent_take(&asked, RECORDS, &why));
    CHECK(begun_now == 0 && begun == before + 2 && read_now == reads + 2);
    asked.version = "known";
    op_lent_begin(&asked);
    op_lent_forget();
    CHECK(begun_now == 1);
    op_lent_release(op_lent_take(&asked, RECORDS, &why));
    CHECK(begun_now == 0 && lent_now == 0);
}

/* Who waits begins, comes back until the fetch has come, and takes it then; what can't be begun, and what
 * was read, is waited for by nobody. */
static void check_awaited(void) {
    op_settings settings = {.options = "{\"awaited\": 1}",
                            .verify = true,
                            .max_record_bytes = 1 << 20};
    op_block asked = block_of(&settings, "memory://awaited", 0);
    failure why;
    int before = begun;
    CHECK(!op_lent_await(&asked) && begun_now == 1);
    CHECK(op_lent_await(&asked) && op_lent_await(&asked));
    op_lent_release(op_lent_take(&asked, RECORDS / 2, &why));
    CHECK(begun == before + 1 && begun_now == 0 && op_lent_await(&asked));
    op_lent_release(op_lent_take(&asked, RECORDS / 2, &why));
    CHECK(lent_now == 0);
    asked.start = REFUSED * BLOCK_BYTES;
    asked.stop = (REFUSED + 1) * BLOCK_BYTES;
    CHECK(op_lent_await(&asked));
    op_lent_forget();
}

/* A block of another version of its file is another block. */
static void check_versions(void) {
    op_settings settings = {.options = "{}", .verify = true, .max_record_bytes = 1 << 20};
    op_block asked = block_of(&settings, "memory://again", 0); /* its version changes below */
    failure why;
    int reads = read_now;
    for (int i = 0; i < 4; i++) {
        asked.version = i % 2 ? "second" : "first";
        op_lent *block = op_lent_take(&asked, RECORDS / 2, &why);
        CHECK(block != NULL && read_now == reads + (i < 2 ? i + 1 : 2));
        op_lent_release(block);
    }
}

int main(void) {
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    use_lender();
    check_let_go();
    check_begun();
    check_awaited();
    check_versions();
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        pthread_create(&threads[i], NULL, work, &seeds[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(lent_now <= BLOCKS);
    op_lent_forget();
    CHECK(lent_now == 0 && begun_now == 0);
    CHECK(read_now < THREADS * ROUNDS / 2); /* it is a cache */
    printf("%d takes, %d reads, %d begun\n", THREADS * ROUNDS, read_now, begun);
    return 0;
}
