#include "tensorflow/ops/held.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BEGUN_AHEAD = 32 << 20, LEAST_MOVED = 64 << 10 };

typedef enum { LOADING, HERE, MOVING } held_state;

/* A block, of whose `count` good records `left` are still to be picked. */
typedef struct {
    held_state state;
    bool apart; /* each record has memory of its own; else all lie in `run` or `moved` */
    span_run run;
    chunk moved;
    ex_bytes *records; /* no data: it was picked */
    size_t count, left;
    size_t live, size; /* bytes of those that are left, and of the memory that they lie in */
    size_t pins;       /* picked records that calls hold */
    failure why;       /* what is wrong behind the good records */
} held_block;

typedef struct held_epoch {
    int64_t id;
    size_t calls; /* that are at it */
    int64_t blocks;
    held_block **held;
} held_epoch;

struct held_epochs {
    pthread_mutex_t lock; /* over all that is in here, but for the bytes of records */
    pthread_cond_t changed;
    held_epoch *epochs[MAX_EPOCHS]; /* the one used last first */
};

struct held_picks {
    held_epochs *all;
    held_epoch *epoch;
    size_t count;
    record_pick *picks;
    ex_bytes *records;
    held_block **from; /* the block of each … */
    void **own;        /* … and its memory, if it has its own */
    span_run *again;   /* what was read once more, for records that had gone */
    size_t agains;
};

/* --- their lives -------------------------------------------------------------------------------- */

static void block_release(held_block *block) {
    for (size_t i = 0; block->apart && i < block->count; i++) free((void *)block->records[i].data);
    run_release(&block->run);
    chunk_release(&block->moved);
    free(block->records);
    free(block);
}

static void epoch_delete(held_epoch *epoch) {
    if (epoch == NULL) return;
    for (int64_t i = 0; i < epoch->blocks; i++)
        if (epoch->held[i] != NULL) block_release(epoch->held[i]);
    free(epoch->held);
    free(epoch);
}

static held_epoch *epoch_new(int64_t id, int64_t blocks) {
    held_epoch *epoch = calloc(1, sizeof *epoch);
    if (epoch == NULL) return NULL;
    *epoch = (held_epoch){.id = id, .blocks = blocks};
    epoch->held = calloc((size_t)blocks + 1, sizeof *epoch->held);
    if (epoch->held != NULL) return epoch;
    free(epoch);
    return NULL;
}

held_epochs *held_new(void) {
    held_epochs *all = calloc(1, sizeof *all);
    if (all == NULL) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    return all;
}

void held_delete(held_epochs *all) {
    if (all == NULL) return;
    for (int i = 0; i < MAX_EPOCHS; i++) epoch_delete(all->epochs[i]);
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->changed);
    free(all);
}

/* With the lock. The epoch, first in the list; *surplus is to be deleted without the lock. NULL: no
 * memory, or all are in use. */
static held_epoch *use_epoch(held_epochs *all, int64_t id, int64_t blocks, held_epoch **surplus) {
    held_epoch *found = NULL;
    int at = 0;
    for (; at < MAX_EPOCHS && all->epochs[at] != NULL; at++)
        if (all->epochs[at]->id == id && all->epochs[at]->blocks == blocks) break;
    if (at < MAX_EPOCHS && all->epochs[at] != NULL) {
        found = all->epochs[at];
    } else {
        for (int i = at == MAX_EPOCHS ? at - 1 : at; i > 0 && at == MAX_EPOCHS; i--)
            if (all->epochs[i]->calls == 0) at = i;
        if (at == MAX_EPOCHS || (found = epoch_new(id, blocks)) == NULL) return NULL;
        *surplus = all->epochs[at];
    }
    memmove(&all->epochs[1], &all->epochs[0], (size_t)at * sizeof all->epochs[0]);
    all->epochs[0] = found;
    found->calls++;
    return found;
}

/* --- a block's records -------------------------------------------------------------------------- */

/* Copies each record into memory of its own, and lets the block go. */
static bool set_apart(held_block *block) {
    for (size_t i = 0; i < block->count; i++) {
        uint8_t *copy = malloc(block->records[i].size + 1);
        if (copy == NULL) {
            for (size_t k = 0; k < i; k++) free((void *)block->records[k].data);
            block->count = 0;
            return false;
        }
        memcpy(copy, block->records[i].data, block->records[i].size);
        block->records[i].data = copy;
    }
    block->apart = true;
    run_release(&block->run);
    return true;
}

/* Without the lock. */
static void read_block_of(held_block *block, kernel_call *now, const blocks_request *asked,
                          const read_settings *settings, int64_t number) {
    const span_row whole = {number, 0, asked->table[number].records};
    block->why.code = TF_OK;
    if (!check_span(now, asked, &whole) || !run_read(now, asked, &whole, settings, &block->run))
        block->why = now->why;
    now->why.code = TF_OK; /* the records before the damage may be all that are picked */
    const record_part *found = &block->run.found;
    block->records = calloc(found->count + 1, sizeof *block->records);
    if (block->records == NULL) {
        fail(&block->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    block->count = block->left = found->count;
    block->size = found->bytes.size;
    for (size_t i = 0; i < found->count; i++) {
        block->records[i] =
            (ex_bytes){found->bytes.data + found->offsets[i], (size_t)found->lengths[i]};
        block->live += block->records[i].size;
    }
    if (block->live >= block->count * HELD_APART) {
        if (!set_apart(block)) fail(&block->why, TF_RESOURCE_EXHAUSTED, "out of memory");
    } else if (block->run.lent == NULL) {
        chunk_release(&block->run.found.table);
    }
}

/* Whether half of the memory is that of records which have gone. */
static bool is_sparse(const held_block *block) {
    return block->state == HERE && !block->apart && block->pins == 0 && block->left > 0 &&
           block->size >= LEAST_MOVED && block->live < block->size / 2;
}

/* Without the lock, in state MOVING: moves the records that are left together. */
static void move_together(held_block *block) {
    chunk moved;
    failure why;
    if (!chunk_take(&moved, block->live, &why)) return; /* they can stay where they are */
    uint8_t *to = moved.memory;
    for (size_t i = 0; i < block->count; i++) {
        ex_bytes *record = &block->records[i];
        if (record->data == NULL) continue;
        memcpy(to, record->data, record->size);
        record->data = to;
        to += record->size;
    }
    run_release(&block->run);
    chunk_release(&block->moved);
    block->moved = moved;
    block->size = block->live;
}

/* --- taking ------------------------------------------------------------------------------------- */

static void picks_free(held_picks *taken) {
    free(taken->picks);
    free(taken->records);
    free(taken->from);
    free(taken->own);
    free(taken->again);
    free(taken);
}

static held_picks *picks_new(held_epochs *all, const int64_t *picks, size_t count) {
    held_picks *taken = calloc(1, sizeof *taken);
    if (taken == NULL) return NULL;
    taken->all = all;
    taken->picks = calloc(count + 1, sizeof *taken->picks);
    taken->records = calloc(count + 1, sizeof *taken->records);
    taken->from = calloc(count + 1, sizeof *taken->from);
    taken->own = calloc(count + 1, sizeof *taken->own);
    if (!taken->picks || !taken->records || !taken->from || !taken->own) {
        picks_free(taken);
        return NULL;
    }
    taken->count = count;
    for (size_t i = 0; i < count; i++)
        taken->picks[i] = (record_pick){(uint32_t)(picks[i] >> 32), (uint32_t)picks[i]};
    return taken;
}

static bool check_picks(kernel_call *now, const blocks_request *asked, const int64_t *picks,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        const int64_t block = picks[i] >> 32;
        if (block < 0 || block >= asked->table_rows ||
            (picks[i] & UINT32_MAX) >= asked->table[block].records)
            return fail(&now->why, TF_INVALID_ARGUMENT, "there is no record %" PRId64, picks[i]);
    }
    return true;
}

/* With the lock. Blocks that nobody has read yet are this call's to read: they are put into `mine`. NULL
 * in taken->from: no memory for one. */
static size_t pin_blocks(held_picks *taken, uint32_t *mine) {
    size_t count = 0;
    for (size_t i = 0; i < taken->count; i++) {
        held_block **at = &taken->epoch->held[taken->picks[i].block];
        if (*at == NULL) {
            *at = calloc(1, sizeof **at);
            if (*at == NULL) return count;
            (*at)->state = LOADING;
            mine[count++] = taken->picks[i].block;
        }
        (*at)->pins++;
        taken->from[i] = *at;
    }
    return count;
}

static void begin(kernel_call *now, const blocks_request *asked, const read_settings *settings,
                  uint32_t block) {
    const span_row whole = {block, 0, asked->table[block].records};
    named_block named;
    if (check_span(now, asked, &whole) && input_block(now, asked, &whole, &named) &&
        !is_raw_local(named.url, named.codec, settings))
        lent_begin(&named.block, settings);
    now->why.code = TF_OK; /* reading meets the same, and says it */
}

/* Without the lock. The stores are asked for some of the blocks ahead. */
static void read_blocks_of(held_picks *taken, kernel_call *now, const blocks_request *asked,
                           const read_settings *settings, const uint32_t *mine, size_t count) {
    size_t begun = 0;
    int64_t ahead = 0;
    for (size_t i = 0; i < count; i++) {
        for (; begun < count && ahead < BEGUN_AHEAD; begun++) {
            if (begun > i) begin(now, asked, settings, mine[begun]);
            ahead += asked->table[mine[begun]].raw_stop - asked->table[mine[begun]].raw_start;
        }
        held_block *block = taken->epoch->held[mine[i]];
        read_block_of(block, now, asked, settings, mine[i]);
        ahead -= asked->table[mine[i]].raw_stop - asked->table[mine[i]].raw_start;
        pthread_mutex_lock(&taken->all->lock);
        block->state = HERE;
        pthread_cond_broadcast(&taken->all->changed);
        pthread_mutex_unlock(&taken->all->lock);
    }
}

/* With the lock. False: a record is behind damage, or there was no memory. Records that have gone are
 * left empty. */
static bool take_records(held_picks *taken, kernel_call *now, size_t *gone) {
    for (size_t i = 0; i < taken->count; i++) {
        held_block *block = taken->from[i];
        if (block == NULL) return fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        while (block->state != HERE) pthread_cond_wait(&taken->all->changed, &taken->all->lock);
        const uint32_t index = taken->picks[i].index;
        if (index >= block->count) {
            now->why = block->why;
            return now->why.code != TF_OK
                       ? false
                       : fail(&now->why, TF_DATA_LOSS, "a block has fewer records than it had");
        }
        ex_bytes *record = &block->records[index];
        taken->records[i] = *record;
        if (record->data == NULL) {
            (*gone)++;
            continue;
        }
        taken->own[i] = block->apart ? (void *)record->data : NULL;
        record->data = NULL;
        block->left--;
        block->live -= record->size;
    }
    return true;
}

/* Somebody had these before, as who restores an iterator twice in one process. */
static bool read_gone(held_picks *taken, kernel_call *now, const blocks_request *asked,
                      const read_settings *settings, size_t gone) {
    taken->again = calloc(gone, sizeof *taken->again);
    if (taken->again == NULL) return fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
    for (size_t i = 0; i < taken->count; i++) {
        if (taken->records[i].data != NULL) continue;
        const span_row alone = {taken->picks[i].block, taken->picks[i].index, 1};
        span_run *run = &taken->again[taken->agains++];
        if (!check_span(now, asked, &alone) || !run_read(now, asked, &alone, settings, run))
            return false;
        taken->records[i] = (ex_bytes){run->found.bytes.data + run->found.offsets[0],
                                       (size_t)run->found.lengths[0]};
    }
    return true;
}

held_picks *held_take(held_epochs *all, kernel_call *now, const blocks_request *asked,
                      const read_settings *settings, int64_t epoch, const int64_t *picks,
                      size_t count) {
    held_epoch *surplus = NULL;
    size_t gone = 0;
    if (!check_picks(now, asked, picks, count)) return NULL;
    held_picks *taken = picks_new(all, picks, count);
    uint32_t *mine = calloc(count + 1, sizeof *mine);
    if (taken == NULL || mine == NULL) {
        fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        pthread_mutex_lock(&all->lock);
        taken->epoch = use_epoch(all, epoch, asked->table_rows, &surplus);
        const size_t own = taken->epoch != NULL ? pin_blocks(taken, mine) : 0;
        pthread_mutex_unlock(&all->lock);
        epoch_delete(surplus);
        read_blocks_of(taken, now, asked, settings, mine, own);
        pthread_mutex_lock(&all->lock);
        const bool had = take_records(taken, now, &gone);
        pthread_mutex_unlock(&all->lock);
        if (had && gone > 0) read_gone(taken, now, asked, settings, gone);
    }
    free(mine);
    if (now->why.code == TF_OK) return taken;
    held_give(taken);
    return NULL;
}

const ex_bytes *held_records(const held_picks *taken) { return taken->records; }

/* --- giving back -------------------------------------------------------------------------------- */

/* With the lock, which is let go while records are moved. Whether the block has gone from its epoch, and
 * is to be released without the lock. */
static bool unpin(held_picks *taken, size_t i) {
    held_block *block = taken->from[i];
    if (--block->pins > 0) return false;
    if (block->left == 0 && block->state == HERE) {
        taken->epoch->held[taken->picks[i].block] = NULL;
        return true;
    }
    if (is_sparse(block)) {
        block->state = MOVING;
        pthread_mutex_unlock(&taken->all->lock);
        move_together(block);
        pthread_mutex_lock(&taken->all->lock);
        block->state = HERE;
        pthread_cond_broadcast(&taken->all->changed);
    }
    return false;
}

void held_give(held_picks *taken) {
    if (taken == NULL) return;
    for (size_t i = 0; i < taken->count; i++) free(taken->own[i]);
    for (size_t i = 0; i < taken->agains; i++) run_release(&taken->again[i]);
    pthread_mutex_lock(&taken->all->lock);
    for (size_t i = 0; i < taken->count; i++) {
        held_block *block = taken->from[i];
        if (block == NULL || !unpin(taken, i)) continue;
        pthread_mutex_unlock(&taken->all->lock);
        block_release(block); /* it may enter Python */
        pthread_mutex_lock(&taken->all->lock);
    }
    if (taken->epoch != NULL) taken->epoch->calls--;
    pthread_mutex_unlock(&taken->all->lock);
    picks_free(taken);
}
