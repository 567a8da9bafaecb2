#include "tensorflow/ops/op_order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- TensorFlow's random numbers -------------------------------------------------------------- */

enum { ROUNDS = 10 };

op_philox op_philox_new(uint64_t seed, uint64_t seed2) {
    return (op_philox){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                       .counter = {0, 0, (uint32_t)seed2, (uint32_t)(seed2 >> 32)},
                       .used = 4};
}

void op_philox_refill(op_philox *of) {
    uint32_t key[2] = {of->key[0], of->key[1]}, x[4];
    memcpy(x, of->counter, sizeof x);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ x[1] ^ key[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ x[3] ^ key[1], (uint32_t)a};
        memcpy(x, next, sizeof x);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    memcpy(of->drawn, x, sizeof x);
    of->used = 0;
    if (++of->counter[0] == 0) of->counter[1]++;
}

/* --- the order -------------------------------------------------------------------------------- */

/* A file that is being read: its next record, and the blocks that are left of it. */
typedef struct {
    bool open;
    int64_t block, stop;
    int64_t index, end; /* in the block */
} file_cursor;

struct op_order {
    int64_t blocks;
    int64_t *first; /* file f of the table has blocks [first[f], first[f + 1]) */

    file_cursor *lanes;
    int64_t cycle, lane, in_lane; /* the lane whose turn it is, and how many records it has given */
    int64_t next_file, open;

    op_pick *ring;
    int64_t room, start, count; /* of the ring: `start` stays below `room` */
    bool drained;
    op_philox dice;

    uint8_t *touched; /* a bit for each block */
};

/* --- what it is made of ------------------------------------------------------------------------- */

/* A block's records that are meant: [*begin, answer). */
static int64_t meant(const op_order_plan *plan, int64_t block, int64_t *begin) {
    const op_span *span = &plan->spans[block];
    const int64_t records = plan->table[block].records;
    *begin = span->skip < records ? span->skip : records;
    return span->take < records - *begin ? *begin + span->take : records;
}

static bool check_rows(op_call *call, const op_order_plan *plan) {
    int64_t file = 0;
    for (int64_t i = 0; i < plan->blocks; i++) {
        const op_block_row *row = &plan->table[i];
        const op_span *span = &plan->spans[i];
        const bool right = file <= row->file && row->file < plan->table_files && span->block == i &&
                           span->skip >= 0 && span->take >= 0 && row->records >= 0 &&
                           row->records <= INT32_MAX;
        if (!right)
            return fail(&call->why, TF_INVALID_ARGUMENT, "block %" PRId64 " makes no sense", i);
        file = row->file;
    }
    return true;
}

static bool check_plan(op_call *call, const op_order_plan *plan) {
    if (plan->cycle < 1 || plan->block_length < 1 || plan->buffer < 1 || plan->table_files < 0 ||
        plan->blocks > INT32_MAX)
        return fail(&call->why, TF_INVALID_ARGUMENT, "an order of such sizes makes no sense");
    for (int64_t i = 0; i < plan->file_count; i++)
        if (plan->files[i] < 0 || plan->files[i] >= plan->table_files)
            return fail(&call->why, TF_INVALID_ARGUMENT, "there is no file %" PRId64,
                        plan->files[i]);
    return check_rows(call, plan);
}

static void find_files(op_order *order, const op_order_plan *plan) {
    int64_t block = 0;
    for (int64_t file = 0; file <= plan->table_files; file++) {
        while (block < plan->blocks && plan->table[block].file < file) block++;
        order->first[file] = block;
    }
}

/* All records of the epoch; INT64_MAX at most. */
static int64_t count_records(const op_order *order, const op_order_plan *plan) {
    int64_t records = 0, begin = 0;
    for (int64_t i = 0; i < plan->file_count; i++)
        for (int64_t b = order->first[plan->files[i]]; b < order->first[plan->files[i] + 1]; b++) {
            const int64_t end = meant(plan, b, &begin);
            if (__builtin_add_overflow(records, end - begin, &records)) return INT64_MAX;
        }
    return records;
}

static void *array(int64_t count, size_t size) {
    return (uint64_t)count < SIZE_MAX / size - 1 ? calloc((size_t)count + 1, size) : NULL;
}

op_order *op_order_new(op_call *call, const op_order_plan *plan) {
    if (!check_plan(call, plan)) return NULL;
    op_order *order = calloc(1, sizeof *order);
    if (order != NULL) {
        order->blocks = plan->blocks;
        order->cycle = plan->cycle < plan->file_count ? plan->cycle : plan->file_count;
        order->dice = op_philox_new(plan->seed, plan->seed2);
        order->first = array(plan->table_files + 1, sizeof *order->first);
        order->lanes = array(order->cycle, sizeof *order->lanes);
        order->touched = array(plan->blocks / 8, 1);
    }
    if (order != NULL && order->first != NULL) {
        find_files(order, plan);
        const int64_t records = count_records(order, plan);
        order->room = plan->buffer < records ? plan->buffer : records;
        order->ring = array(order->room, sizeof *order->ring);
    }
    if (order != NULL && order->first && order->lanes && order->touched && order->ring)
        return order;
    op_order_delete(order);
    fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for a shuffle of %" PRId64,
         plan->buffer);
    return NULL;
}

void op_order_delete(op_order *order) {
    if (order == NULL) return;
    free(order->first);
    free(order->lanes);
    free(order->touched);
    free(order->ring);
    free(order);
}

/* --- files in turns ----------------------------------------------------------------------------- */

/* Goes on to the next block that has any records. False: the file has ended. */
static bool file_has_record(file_cursor *file, const op_order_plan *plan) {
    while (file->index == file->end) {
        if (++file->block >= file->stop) return false;
        file->end = meant(plan, file->block, &file->index);
    }
    return true;
}

static void next_lane(op_order *order) {
    order->lane = order->lane + 1 < order->cycle ? order->lane + 1 : 0;
    order->in_lane = 0;
}

static void open_file(op_order *order, const op_order_plan *plan) {
    const int64_t file = plan->files[order->next_file++];
    order->lanes[order->lane] =
        (file_cursor){true, order->first[file] - 1, order->first[file + 1], 0, 0};
    order->open++;
}

/* As tensorflow/core/kernels/data/interleave_dataset_op.cc goes on: a file that ends in its turn gives no
 * record in it, and the next file takes its place when the turn comes round. */
static bool next_in_turns(op_order *order, const op_order_plan *plan, op_pick *next) {
    while (order->open > 0 || order->next_file < plan->file_count) {
        file_cursor *file = &order->lanes[order->lane];
        if (!file->open) {
            if (order->next_file < plan->file_count)
                open_file(order, plan);
            else
                next_lane(order);
        } else if (file_has_record(file, plan)) {
            *next = (op_pick){(uint32_t)file->block, (uint32_t)file->index++};
            if (++order->in_lane == plan->block_length) next_lane(order);
            return true;
        } else {
            file->open = false;
            order->open--;
            next_lane(order);
        }
    }
    return false;
}

/* --- the shuffle -------------------------------------------------------------------------------- */

static int64_t place(const op_order *order, int64_t offset) {
    const int64_t at = order->start + offset;
    return at < order->room ? at : at - order->room;
}

static void fill(op_order *order, const op_order_plan *plan) {
    while (!order->drained && order->count < order->room) {
        if (next_in_turns(order, plan, &order->ring[place(order, order->count)]))
            order->count++;
        else
            order->drained = true;
    }
}

/* As tensorflow/core/kernels/data/shuffle_dataset_op.cc picks. */
bool op_order_next(op_order *order, const op_order_plan *plan, op_pick *next) {
    fill(order, plan);
    if (order->count == 0) return false;
    const uint32_t number = op_philox_next(&order->dice);
    const int64_t offset = order->count <= UINT32_MAX ? number % (uint32_t)order->count : number;
    op_pick *picked = &order->ring[place(order, offset)];
    *next = *picked;
    *picked = order->ring[order->start];
    order->start = place(order, 1);
    order->count--;
    return true;
}

/* --- which blocks are needed for the first time ------------------------------------------------- */

bool op_order_touch(op_order *order, uint32_t block) {
    uint8_t *byte = &order->touched[block / 8], bit = (uint8_t)(1u << block % 8);
    const bool first = (*byte & bit) == 0;
    *byte |= bit;
    return first;
}

void op_order_forget_touched(op_order *order) {
    memset(order->touched, 0, (size_t)order->blocks / 8 + 1);
}
