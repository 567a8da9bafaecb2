/* What the tests of the ops' C share: a lender that stands in for Python. It frames numbered records,
 * damages one block, refuses another, and counts what it has lent. Who includes this says how many
 * BLOCKS of RECORDS there are, and which are REFUSED and DAMAGED, the latter FROM a record on. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/ops/op_blocks.h"
#include "tfrecord/tfrecord.h"

enum { RECORD = 24, BLOCK_BYTES = RECORDS * (RECORD + TFRECORD_OVERHEAD) };

struct tf_abi tf;

static atomic_int lent_now, begun_now, begun, read_now;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Record `i` of a block holds its number. */
static void fill_record(uint8_t *record, int64_t block, int64_t i) {
    memset(record, 0, RECORD);
    snprintf((char *)record, RECORD, "%lld", (long long)(block * RECORDS + i));
}

/* Some blocks can't be begun. */
static void *begin_block(const op_block *block) {
    begun++;
    if (block->start / BLOCK_BYTES == REFUSED) return NULL;
    begun_now++;
    return malloc(1);
}

static void drop_fetch(void *fetch) {
    free(fetch);
    begun_now--;
}

/* Every second time a fetch has come. */
static bool await_fetch(void *fetch) {
    static atomic_int asked;
    CHECK(fetch != NULL);
    return ++asked % 2 == 0;
}

static bool read_block(const op_block *block, void *fetch, op_part *found, failure *why) {
    uint8_t records[RECORDS][RECORD];
    const uint8_t *pointers[RECORDS];
    size_t sizes[RECORDS];
    int64_t number = block->start / BLOCK_BYTES;
    read_now++;
    if (fetch != NULL) drop_fetch(fetch);
    if (number == REFUSED) return fail(why, TF_UNAVAILABLE, "refused");
    for (int i = 0; i < RECORDS; i++) {
        fill_record(records[i], number, i);
        pointers[i] = records[i];
        sizes[i] = RECORD;
    }
    uint8_t *bytes = malloc(BLOCK_BYTES);
    tfrecord_put(bytes, pointers, sizes, RECORDS);
    if (number == DAMAGED) bytes[FROM * (RECORD + TFRECORD_OVERHEAD) + TFRECORD_HEADER] ^= 1;
    found->bytes = (op_chunk){.data = bytes, .size = BLOCK_BYTES, .lender = bytes};
    lent_now++;
    return true;
}

static void return_lent(void *bytes) {
    free(bytes);
    lent_now--;
}

static void use_lender(void) {
    op_python = (op_python_functions){.begin_block = begin_block,
                                      .drop_fetch = drop_fetch,
                                      .await_fetch = await_fetch,
                                      .read_block = read_block};
    op_return_lent = return_lent;
}
