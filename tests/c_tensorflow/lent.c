/* The cache of lent blocks, many threads at once: run under ASan, UBSan and TSan by
 * `make test-tensorflow-c`. The lender is a stand-in for Python that frames numbered records, now and
 * then damages or refuses a block, and counts what it has lent. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crc32c/crc32c.h"
#include "tensorflow/ops/lent.h"
#include "tensorflow/ops/records.h"
#include "tfrecord/tfrecord.h"

enum { BLOCKS = 40, RECORDS = 64, RECORD = 24, THREADS = 8, ROUNDS = 4000 };
enum { BLOCK_BYTES = RECORDS * (RECORD + TFRECORD_OVERHEAD) };
enum { REFUSED = 7, DAMAGED = 11, DAMAGED_FROM = 40 };

struct tf_abi tf; /* nobody calls TensorFlow here */

static atomic_int lent_now, begun, read_now;

#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
            abort();                                                                             \
        }                                                                                        \
    } while (0)

static void fill_record(uint8_t *record, int64_t block, int i) {
    memset(record, 0, RECORD);
    snprintf((char *)record, RECORD, "%lld/%d", (long long)block, i);
}

static void begin_block(const block_request *block, const read_settings *settings) {
    (void)block, (void)settings;
    begun++;
}

static bool read_block(const block_request *block, const read_settings *settings, part *found,
                       failure *why) {
    (void)settings;
    uint8_t records[RECORDS][RECORD];
    const uint8_t *pointers[RECORDS];
    size_t sizes[RECORDS];
    int64_t number = block->start / BLOCK_BYTES;
    read_now++;
    if (number == REFUSED)
        return fail(why, TF_UNAVAILABLE, "refused");
    for (int i = 0; i < RECORDS; i++) {
        fill_record(records[i], number, i);
        pointers[i] = records[i];
        sizes[i] = RECORD;
    }
    uint8_t *bytes = malloc(BLOCK_BYTES);
    tfrecord_put(bytes, pointers, sizes, RECORDS);
    if (number == DAMAGED)
        bytes[DAMAGED_FROM * (RECORD + TFRECORD_OVERHEAD) + TFRECORD_HEADER] ^= 1;
    found->bytes = (chunk){.data = bytes, .size = BLOCK_BYTES, .lender = bytes};
    lent_now++;
    return true;
}

static void return_lent(void *bytes) {
    free(bytes);
    lent_now--;
}

static void check_records(const part *whole, int64_t number, size_t skip, size_t take) {
    uint8_t expected[RECORD];
    for (size_t i = skip; i < skip + take && i < whole->count; i++) {
        fill_record(expected, number, (int)i);
        CHECK(whole->lengths[i] == RECORD);
        CHECK(memcmp(whole->bytes.data + whole->offsets[i], expected, RECORD) == 0);
    }
}

static void *work(void *argument) {
    unsigned seed = *(unsigned *)argument;
    read_settings settings = {.options = "{}", .verify = true, .limit = 1 << 20};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t number = rand_r(&seed) % BLOCKS;
        size_t skip = (size_t)rand_r(&seed) % RECORDS, take = (size_t)rand_r(&seed) % 16 + 1;
        block_request asked = {.url = "memory://block",
                               .codec = "",
                               .version = "",
                               .start = number * BLOCK_BYTES,
                               .stop = (number + 1) * BLOCK_BYTES,
                               .raw_start = number * BLOCK_BYTES,
                               .raw_stop = (number + 1) * BLOCK_BYTES,
                               .records = RECORDS};
        failure why;
        if (rand_r(&seed) % 3 == 0)
            lent_begin(&asked, &settings);
        if (rand_r(&seed) % 500 == 0)
            lent_forget();
        lent_block *block = lent_take(&asked, &settings, (int64_t)take, &why);
        CHECK((block == NULL) == (number == REFUSED));
        if (block == NULL) {
            CHECK(why.code == TF_UNAVAILABLE);
            continue;
        }
        CHECK(lent_records(block)->count == (number == DAMAGED ? DAMAGED_FROM : RECORDS));
        CHECK((lent_damage(block)->code == TF_DATA_LOSS) == (number == DAMAGED));
        check_records(lent_records(block), number, skip, take);
        if (rand_r(&seed) % 50 == 0)
            usleep(100);
        lent_release(block);
    }
    return NULL;
}

/* Whoever takes a block's last record lets it go. */
static void check_let_go(void) {
    read_settings settings = {.options = "{\"alone\": 1}", .verify = true, .limit = 1 << 20};
    block_request asked = {.url = "memory://alone", .codec = "", .version = "",
                           .stop = BLOCK_BYTES, .raw_stop = BLOCK_BYTES, .records = RECORDS};
    failure why;
    int before = lent_now, reads = read_now;
    for (int i = 0; i < 4; i++) {
        lent_block *block = lent_take(&asked, &settings, RECORDS / 4, &why);
        CHECK(block != NULL && lent_now == before + 1);
        lent_release(block);
    }
    CHECK(lent_now == before && read_now == reads + 1);
}

/* A block of another version of its file is another block. */
static void check_versions(void) {
    read_settings settings = {.options = "{}", .verify = true, .limit = 1 << 20};
    block_request asked = {.url = "memory://again", .codec = "", .version = "first",
                           .stop = BLOCK_BYTES, .raw_stop = BLOCK_BYTES, .records = RECORDS};
    failure why;
    int reads = read_now;
    for (int i = 0; i < 4; i++) {
        asked.version = i % 2 ? "second" : "first";
        lent_block *block = lent_take(&asked, &settings, RECORDS / 2, &why);
        CHECK(block != NULL && read_now == reads + (i < 2 ? i + 1 : 2));
        lent_release(block);
    }
}

int main(void) {
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    lender = (tf_lender){.begin_block = begin_block, .read_block = read_block};
    chunk_return_lent = return_lent;
    check_let_go();
    check_versions();
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        pthread_create(&threads[i], NULL, work, &seeds[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(lent_now <= BLOCKS);
    lent_forget();
    CHECK(lent_now == 0);
    CHECK(read_now < THREADS * ROUNDS / 2); /* it is a cache */
    printf("%d takes, %d reads, %d begun\n", THREADS * ROUNDS, read_now, begun);
    return 0;
}
