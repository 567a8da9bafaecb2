/* TfioStoreBeginEpoch and TfioStorePickRecords: the order of an epoch, batch by batch.
 *
 * An epoch is int64 [3 + f]: a number that no other has, the two seeds of its shuffle, and its files in
 * their order. Some batches are picked by a call: int64 [batches, 2 + n]. A row is the batch, whose number
 * has a mark, the epoch's number, and the records: block << 32 | number in the block. -1 stands for a
 * record where a last batch has fewer, and in the place of the batch for the end.
 *
 * The orders that a kernel keeps are a cache: whoever asks for a batch out of turn (after a restore) gets
 * it by picking all that come before it once more.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, getpid */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tensorflow/ops/op_order.h"

enum { EPOCH_ID, EPOCH_SEED, EPOCH_SEED2, EPOCH_FILES };

/* --- TfioStoreBeginEpoch ------------------------------------------------------------------------ */

enum { NAMES, ALL_NAMES, SEEDS, KEY, BEGIN_INPUT_COUNT };
enum { SEED, SEED2, AGAIN, SEED_COUNT };
enum { KEY_COUNT = 2, MOST_EPOCHS = 1 << 24 };

/* A number that tells one epoch of one iterator from all others. */
static int64_t epoch_number(void) {
    static _Atomic uint64_t begun;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    const uint64_t moment = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    op_philox dice = op_philox_new(moment, (uint64_t)getpid() << 32 ^ atomic_fetch_add(&begun, 1));
    const uint64_t high = op_philox_next(&dice);
    return (int64_t)((high << 32 | op_philox_next(&dice)) & INT64_MAX);
}

/* The seeds with which an iterator of a shuffle begins: each takes the next two numbers of the dataset's
 * generator. `key` are the first numbers that TensorFlow draws from the seeds which are sought. */
static bool find_seeds(op_call *call, const int64_t *seeds, const int64_t *key, int64_t *found) {
    found[0] = seeds[SEED];
    found[1] = seeds[SEED2];
    if (!seeds[AGAIN]) return true;
    op_philox parent = op_philox_new((uint64_t)seeds[SEED], (uint64_t)seeds[SEED2]);
    for (int epoch = 0; epoch < MOST_EPOCHS; epoch++) {
        found[0] = op_philox_next(&parent);
        found[1] = op_philox_next(&parent);
        op_philox child = op_philox_new((uint64_t)found[0], (uint64_t)found[1]);
        if (op_philox_next(&child) == key[0] && op_philox_next(&child) == key[1]) return true;
    }
    return fail(&call->why, TF_INVALID_ARGUMENT,
                "no epoch of the seeds %" PRId64 " and %" PRId64 " begins with %" PRId64,
                seeds[SEED], seeds[SEED2], key[0]);
}

typedef struct {
    const TF_TString *all;
    int64_t count;
} name_list;

typedef struct {
    const TF_TString *text;
    int64_t index;
} named_file;

static int compare_names(const void *a, const void *b) {
    const TF_TString *x = ((const named_file *)a)->text, *y = ((const named_file *)b)->text;
    const size_t m = tf.StringGetSize(x), n = tf.StringGetSize(y);
    const int order = memcmp(tf.StringGetDataPointer(x), tf.StringGetDataPointer(y), m < n ? m : n);
    return order != 0 ? order : (m > n) - (m < n);
}

/* The numbers of some names among all of them. */
static bool number_names(op_call *call, name_list names, name_list all, int64_t *numbers) {
    named_file *sorted = calloc((size_t)all.count + 1, sizeof *sorted);
    if (sorted == NULL) return fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory");
    for (int64_t i = 0; i < all.count; i++) sorted[i] = (named_file){&all.all[i], i};
    qsort(sorted, (size_t)all.count, sizeof *sorted, compare_names);
    bool good = true;
    for (int64_t i = 0; i < names.count && good; i++) {
        const named_file wanted = {&names.all[i], 0};
        const named_file *found =
            bsearch(&wanted, sorted, (size_t)all.count, sizeof *sorted, compare_names);
        good = found != NULL ||
               fail(&call->why, TF_INVALID_ARGUMENT,
                    "the dataset of file names gave a name that it had not when the pipeline was "
                    "made, as name %" PRId64 "; make the pipeline anew",
                    i);
        if (good) numbers[i] = found->index;
    }
    free(sorted);
    return good;
}

static void output_epoch(op_call *call, name_list names, name_list all, const int64_t *seeds,
                         const int64_t *key) {
    /* one empty name: what comes when there are no more epochs */
    const bool none = names.count == 1 && tf.StringGetSize(&names.all[0]) == 0;
    const int64_t files = none ? 0 : names.count > 0 ? names.count : all.count;
    int64_t *epoch = op_output_numbers(call, 0, EPOCH_FILES + files);
    if (epoch == NULL) return;
    epoch[EPOCH_ID] = none ? -1 : epoch_number();
    epoch[EPOCH_SEED] = epoch[EPOCH_SEED2] = 0;
    for (int64_t i = 0; i < files; i++) epoch[EPOCH_FILES + i] = i;
    if (none || (names.count > 0 && !number_names(call, names, all, epoch + EPOCH_FILES))) return;
    find_seeds(call, seeds, key, epoch + EPOCH_SEED);
}

void op_begin_epoch(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    op_call call;
    name_list names, all;
    const int64_t *seeds = NULL, *key = NULL;
    if (op_call_begin(&call, context, BEGIN_INPUT_COUNT) &&
        op_input_strings(&call, NAMES, &names.all, &names.count) &&
        op_input_strings(&call, ALL_NAMES, &all.all, &all.count) &&
        op_input_numbers(&call, SEEDS, SEED_COUNT, &seeds) &&
        op_input_numbers(&call, KEY, KEY_COUNT, &key))
        output_epoch(&call, names, all, seeds, key);
    op_call_end(&call);
}

/* --- TfioStorePickRecords ----------------------------------------------------------------------- */

enum { BATCH, EPOCH, PICK_TABLE, PICK_SPANS, PICK_SIZES, PICK_INPUT_COUNT };
enum {
    BATCH_SIZE,
    BATCHES,
    ALL_BATCHES,
    BUFFER,
    CYCLE,
    BLOCK_LENGTH,
    FILES_KNOWN,
    MOST_FRESH_BYTES,
    SIZE_COUNT
};
enum { MOST_PICKED = 1 << 24 }; /* by one call */
enum { MAX_ORDERS = 4, TABLE_COLUMNS = 8, SPAN_COLUMNS = 3 };

typedef struct {
    int64_t id, next_batch;
    op_order *order;
} kept_order;

typedef struct {
    pthread_mutex_t lock;
    kept_order kept[MAX_ORDERS]; /* the last one used first */
} pick_kernel;

void *op_pick_new(TF_OpKernelConstruction *context) {
    (void)context;
    pick_kernel *of = calloc(1, sizeof *of);
    if (of != NULL) pthread_mutex_init(&of->lock, NULL);
    return of;
}

void op_pick_delete(void *kernel) {
    pick_kernel *of = kernel;
    if (of == NULL) return;
    for (int i = 0; i < MAX_ORDERS; i++) op_order_delete(of->kept[i].order);
    pthread_mutex_destroy(&of->lock);
    free(of);
}

typedef struct {
    op_order_plan plan;
    const int64_t *sizes;
    int64_t number, batch, id; /* `number` has the mark */
} pick_request;

static bool input_pick(op_call *call, pick_request *asked) {
    const int64_t *number = NULL, *epoch = NULL, *table = NULL, *spans = NULL;
    int64_t length = 0, span_rows = 0;
    if (!op_input_numbers(call, BATCH, 1, &number) ||
        !op_input_rows(call, EPOCH, 1, &epoch, &length) ||
        !op_input_rows(call, PICK_TABLE, TABLE_COLUMNS, &table, &asked->plan.blocks) ||
        !op_input_rows(call, PICK_SPANS, SPAN_COLUMNS, &spans, &span_rows) ||
        !op_input_numbers(call, PICK_SIZES, SIZE_COUNT, &asked->sizes))
        return false;
    const int64_t size = asked->sizes[BATCH_SIZE], batches = asked->sizes[BATCHES];
    if (length < EPOCH_FILES || span_rows != asked->plan.blocks || size < 1 || batches < 1 ||
        size > MOST_PICKED || batches > MOST_PICKED / size)
        return fail(&call->why, TF_INVALID_ARGUMENT, "such an epoch makes no sense");
    asked->number = number[0];
    asked->batch = op_marked_group(number[0]);
    asked->id = epoch[EPOCH_ID];
    asked->plan = (op_order_plan){.table = (const op_block_row *)(const void *)table,
                                  .spans = (const op_span *)(const void *)spans,
                                  .blocks = asked->plan.blocks,
                                  .table_files = asked->sizes[FILES_KNOWN],
                                  .files = epoch + EPOCH_FILES,
                                  .file_count = length - EPOCH_FILES,
                                  .cycle = asked->sizes[CYCLE],
                                  .block_length = asked->sizes[BLOCK_LENGTH],
                                  .buffer = asked->sizes[BUFFER],
                                  .seed = (uint64_t)epoch[EPOCH_SEED],
                                  .seed2 = (uint64_t)epoch[EPOCH_SEED2]};
    return true;
}

/* Takes the order that stands before the batch out of the kernel, or makes it. */
static kept_order take_order(pick_kernel *of, op_call *call, const pick_request *asked) {
    kept_order found = {asked->id, 0, NULL};
    pthread_mutex_lock(&of->lock);
    for (int i = 0; i < MAX_ORDERS && found.order == NULL; i++)
        if (of->kept[i].order != NULL && of->kept[i].id == asked->id &&
            of->kept[i].next_batch == asked->batch) {
            found = of->kept[i];
            of->kept[i].order = NULL;
        }
    pthread_mutex_unlock(&of->lock);
    if (found.order == NULL) found.order = op_order_new(call, &asked->plan);
    return found;
}

static void keep_order(pick_kernel *of, kept_order order) {
    pthread_mutex_lock(&of->lock);
    int free_place = MAX_ORDERS - 1;
    for (int i = 0; i < MAX_ORDERS; i++)
        if (of->kept[i].order == NULL) free_place = i;
    op_order *surplus = of->kept[free_place].order;
    memmove(&of->kept[1], &of->kept[0], (size_t)free_place * sizeof of->kept[0]);
    of->kept[0] = order;
    pthread_mutex_unlock(&of->lock);
    op_order_delete(surplus);
}

static void pass_batches(kept_order *order, const pick_request *asked) {
    op_pick passed;
    for (; order->next_batch < asked->batch; order->next_batch++)
        for (int64_t i = 0; i < asked->sizes[BATCH_SIZE]; i++)
            if (!op_order_next(order->order, &asked->plan, &passed)) return;
}

/* One row, of `width` numbers. Blocks that nobody needed before go to `fresh`. False: the end. */
static bool pick_batch(const pick_request *asked, kept_order *order, int64_t *row, int64_t width,
                       int64_t *fresh, int64_t *fresh_count) {
    int64_t count = 2;
    op_pick next;
    const bool more = order->next_batch < asked->sizes[ALL_BATCHES];
    for (; more && count < width && op_order_next(order->order, &asked->plan, &next); count++) {
        row[count] = (int64_t)next.block << 32 | next.index;
        if (op_order_touch(order->order, next.block)) fresh[(*fresh_count)++] = next.block;
    }
    const bool any = count > 2;
    row[0] = any ? (order->next_batch << MARK_BITS) | (asked->number & UINT32_MAX) : -1;
    row[1] = asked->id;
    for (; count < width; count++) row[count] = -1;
    order->next_batch++;
    return any;
}

/* The marked numbers of blocks: of so many bytes at most, since who reads them has only so much room. */
static void output_fresh(op_call *call, const pick_request *asked, const int64_t *fresh,
                         int64_t count) {
    int64_t nbytes = 0, some = 0;
    for (; some < count; some++) {
        const op_block_row *row = &asked->plan.table[fresh[some]];
        nbytes += row->raw_stop - row->raw_start;
        if (some > 0 && nbytes > asked->sizes[MOST_FRESH_BYTES]) break;
    }
    int64_t *begun = op_output_numbers(call, 1, some);
    for (int64_t i = 0; begun != NULL && i < some; i++)
        begun[i] = fresh[i] << MARK_BITS | (asked->number & UINT32_MAX);
}

static void output_batches(op_call *call, const pick_request *asked, kept_order *order) {
    const int64_t rows = order == NULL ? 1 : asked->sizes[BATCHES];
    const int64_t dims[2] = {rows, 2 + asked->sizes[BATCH_SIZE]};
    int64_t *wanted = op_output_tensor(call, 0, TF_INT64, dims, 2), fresh_count = 0;
    int64_t *fresh = malloc((size_t)(rows * dims[1]) * sizeof *fresh);
    if (fresh == NULL) fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory");
    if (wanted != NULL && fresh != NULL) {
        for (int64_t i = 0; i < rows * dims[1]; i++) wanted[i] = -1;
        for (int64_t i = 0; i < rows && order != NULL; i++)
            if (!pick_batch(asked, order, wanted + i * dims[1], dims[1], fresh, &fresh_count))
                break;
        output_fresh(call, asked, fresh, fresh_count);
    }
    free(fresh);
}

void op_pick_records(void *kernel, TF_OpKernelContext *context) {
    op_call call;
    pick_request asked;
    if (op_call_begin(&call, context, PICK_INPUT_COUNT) && input_pick(&call, &asked)) {
        kept_order order = {0};
        if (asked.batch < 0) {
            output_batches(&call, &asked, NULL);
        } else if ((order = take_order(kernel, &call, &asked)).order != NULL) {
            const bool restored = order.next_batch < asked.batch;
            pass_batches(&order, &asked);
            if (restored) op_order_forget_touched(order.order);
            output_batches(&call, &asked, &order);
            keep_order(kernel, order);
        }
    }
    op_call_end(&call);
}
