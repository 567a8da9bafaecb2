#include "tensorflow/ops/op_held.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "memory/pool.h"

/* --- slots ------------------------------------------------------------------------------------ */

/* Memory for records that wait: they come and go one by one, by the million, and from any thread.
 *
 * malloc would keep what each thread has freed for that thread. Here all share slabs of equal slots, of
 * sizes an eighth apart, so that what one record leaves is the next one's. A slab without records goes.
 * Nothing here takes a lock.
 */

typedef struct slab slab;

/* A record, and where it belongs. */
typedef struct {
    slab *home; /* NULL: memory of its own */
    size_t size;
    uint8_t data[];
} record_slot;

enum { SLOT_CLASSES = 96 };

typedef struct {
    slab *open[SLOT_CLASSES]; /* slabs of each class that have a free slot */
} record_slots;

/* Sizes of slots: 64, 72, 80 … 128, 144 … bytes. */
enum { SMALLEST_BITS = 6, STEP_BITS = 3, STEPS = 1 << STEP_BITS, LARGEST_SLOT = 128 << 10 };
enum { SLOTS_OF_SLAB = 16, SMALLEST_SLAB = 64 << 10 };

struct slab {
    slab *newer, *older;      /* of its class's list, while it has a free slot */
    size_t slots, free_slots; /* all, and those whose places are on the stack */
    size_t class, capacity;
    uint32_t *free; /* the stack: what waits for a record is not touched */
    char *first;
};

static size_t class_of(size_t nbytes, size_t *rounded) {
    const size_t least = nbytes >> SMALLEST_BITS != 0 ? nbytes : (size_t)1 << SMALLEST_BITS;
    const size_t bits = 63 - (size_t)__builtin_clzll(least);
    const size_t step = (size_t)1 << (bits - STEP_BITS), base = (size_t)1 << bits;
    const size_t steps = nbytes > base ? (nbytes - base + step - 1) / step : 0;
    *rounded = base + steps * step;
    return (bits - SMALLEST_BITS) * STEPS + steps;
}

/* --- the list of slabs with a free slot --------------------------------------------------------- */

static void link_slab(record_slots *all, slab *of) {
    slab *first = all->open[of->class];
    of->newer = NULL;
    of->older = first;
    if (first != NULL) first->newer = of;
    all->open[of->class] = of;
}

static void unlink_slab(record_slots *all, slab *of) {
    *(of->newer != NULL ? &of->newer->older : &all->open[of->class]) = of->older;
    if (of->older != NULL) of->older->newer = of->newer;
}

static slab *slab_new(record_slots *all, size_t class, size_t slot_size) {
    size_t capacity = 0, nbytes = (slot_size + sizeof(uint32_t)) * SLOTS_OF_SLAB + sizeof(slab);
    slab *of = pool_take(nbytes > SMALLEST_SLAB ? nbytes : SMALLEST_SLAB, &capacity);
    if (of == NULL) return NULL;
    const size_t slots = (capacity - sizeof *of) / (slot_size + sizeof *of->free);
    *of = (slab){.slots = slots, .class = class, .capacity = capacity, .first = (char *)(of + 1)};
    of->free = (uint32_t *)(void *)(of->first + of->slots * slot_size);
    for (size_t i = 0; i < of->slots; i++)
        of->free[i] = (uint32_t)((of->slots - 1 - i) * slot_size);
    of->free_slots = of->slots;
    link_slab(all, of);
    return of;
}

static void *take_slot(record_slots *all, slab *of) {
    if (--of->free_slots == 0) unlink_slab(all, of);
    return of->first + of->free[of->free_slots];
}

static void give_slot(record_slots *all, slab *of, const char *slot) {
    of->free[of->free_slots] = (uint32_t)(slot - of->first);
    if (of->free_slots++ == 0) link_slab(all, of);
    if (of->free_slots < of->slots) return;
    unlink_slab(all, of);
    pool_give(of, of->capacity);
}

/* ------------------------------------------------------------------------------------------------ */

/* A slot for `size` bytes. NULL: no memory. */
static record_slot *slots_take(record_slots *all, size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    size_t slot_size = 0;
    const size_t nbytes = sizeof(record_slot) + size;
    record_slot *slot = NULL;
    slab *home = NULL;
    if (nbytes > LARGEST_SLOT) {
        slot = malloc(nbytes);
    } else {
        const size_t class = class_of(nbytes, &slot_size);
        home = all->open[class] != NULL ? all->open[class] : slab_new(all, class, slot_size);
        if (home == NULL) return NULL;
        slot = take_slot(all, home);
    }
    if (slot == NULL) return NULL;
    slot->home = home;
    slot->size = size;
    return slot;
}

/* NULL is no slot. */
static void slots_give(record_slots *all, record_slot *slot) {
    if (slot == NULL) return;
    if (slot->home == NULL)
        free(slot);
    else
        give_slot(all, slot->home, (const char *)slot);
}

/* --- records that are held -------------------------------------------------------------------- */

enum { BEGUN_AHEAD = 32 << 20 };

typedef enum { NOT_READ, READING, READ } block_state;

/* A block, of whose records `left` still wait to be picked: those in `slots` that are not NULL. */
typedef struct {
    record_slot **slots;
    uint32_t count, left;
    block_state state;
} held_block;

typedef struct {
    int64_t id;
    size_t calls; /* that are at it */
    int64_t blocks;
    held_block *held;
    record_slots memory;
} held_epoch;

struct op_held {
    pthread_mutex_t lock; /* over all that is in here */
    pthread_cond_t changed;
    held_epoch *epochs[MAX_EPOCHS]; /* the one used last first */
};

struct op_held_picks {
    op_held *all;
    held_epoch *epoch;
    size_t count;
    ex_bytes *records;
    record_slot **slots; /* NULL: the record is one of `again` */
    op_run *again;       /* records that had gone, and were read once more */
    size_t agains;
};

/* --- epochs ------------------------------------------------------------------------------------- */

static void epoch_delete(held_epoch *epoch) {
    if (epoch == NULL) return;
    for (int64_t b = 0; epoch->held != NULL && b < epoch->blocks; b++) {
        held_block *block = &epoch->held[b];
        for (uint32_t i = 0; i < block->count; i++) slots_give(&epoch->memory, block->slots[i]);
        free(block->slots);
    }
    free(epoch->held);
    free(epoch);
}

static held_epoch *epoch_new(int64_t id, int64_t blocks) {
    held_epoch *epoch = calloc(1, sizeof *epoch);
    if (epoch == NULL) return NULL;
    epoch->id = id;
    epoch->blocks = blocks;
    epoch->held = calloc((size_t)blocks + 1, sizeof *epoch->held);
    if (epoch->held != NULL) return epoch;
    free(epoch);
    return NULL;
}

op_held *op_held_new(void) {
    op_held *all = calloc(1, sizeof *all);
    if (all == NULL) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    return all;
}

void op_held_delete(op_held *all) {
    if (all == NULL) return;
    for (int i = 0; i < MAX_EPOCHS; i++) epoch_delete(all->epochs[i]);
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->changed);
    free(all);
}

/* Where the epoch stands in the list, or the place for it: an empty one, or that of the one which was used
 * longest ago and nobody is at. MAX_EPOCHS: there is none. */
static int find_epoch(const op_held *all, int64_t id, int64_t blocks) {
    int idle = MAX_EPOCHS;
    for (int i = 0; i < MAX_EPOCHS; i++) {
        const held_epoch *epoch = all->epochs[i];
        if (epoch == NULL || (epoch->id == id && epoch->blocks == blocks)) return i;
        if (epoch->calls == 0) idle = i;
    }
    return idle;
}

/* With the lock. The epoch, first in the list; *surplus is to be deleted without the lock. */
static held_epoch *use_epoch(op_held *all, int64_t id, int64_t blocks, held_epoch **surplus) {
    const int at = find_epoch(all, id, blocks);
    if (at == MAX_EPOCHS) return NULL;
    held_epoch *found = all->epochs[at];
    if (found == NULL || found->id != id || found->blocks != blocks) {
        *surplus = found;
        if ((found = epoch_new(id, blocks)) == NULL) {
            *surplus = NULL;
            return NULL;
        }
    }
    memmove(&all->epochs[1], &all->epochs[0], (size_t)at * sizeof all->epochs[0]);
    all->epochs[0] = found;
    found->calls++;
    return found;
}

/* --- reading blocks ----------------------------------------------------------------------------- */

/* Lets the good records of a block wait. Of what is damaged or has no room, each record is read by itself
 * when it is picked, which says what is wrong. */
static void keep_records(op_held_picks *taken, const op_part *found, uint32_t number) {
    pthread_mutex_t *lock = &taken->all->lock;
    held_block *block = &taken->epoch->held[number];
    record_slot **slots = malloc((found->count + 1) * sizeof *slots);
    uint32_t count = 0;
    pthread_mutex_lock(lock);
    for (; slots != NULL && count < found->count; count++) {
        slots[count] = slots_take(&taken->epoch->memory, (size_t)found->lengths[count]);
        if (slots[count] == NULL) break;
    }
    pthread_mutex_unlock(lock);
    for (uint32_t i = 0; i < count; i++)
        memcpy(slots[i]->data, found->bytes.data + found->offsets[i], slots[i]->size);
    pthread_mutex_lock(lock);
    *block = (held_block){slots, count, count, READ};
    pthread_cond_broadcast(&taken->all->changed);
    pthread_mutex_unlock(lock);
}

static void read_block_of(op_held_picks *taken, op_call *call, const op_request *asked,
                          uint32_t block) {
    const op_span whole = {block, 0, asked->table[block].records};
    op_run run = {0};
    if (op_check_span(call, asked, &whole)) op_run_read(call, asked, &whole, &run);
    call->why.code = TF_OK; /* the records before the damage may be all that are picked */
    keep_records(taken, &run.found, block);
    op_run_release(&run);
}

static int64_t block_bytes(const op_request *asked, uint32_t block) {
    return asked->table[block].raw_stop - asked->table[block].raw_start;
}

static void begin(op_call *call, const op_request *asked, uint32_t block) {
    const op_span whole = {block, 0, asked->table[block].records};
    op_named_block named;
    if (op_check_span(call, asked, &whole) && op_input_block(call, asked, &whole, &named) &&
        !op_is_raw_local(named.url, named.codec, asked->settings))
        op_lent_begin(&named.block);
    call->why.code = TF_OK; /* reading meets the same, and says it */
}

/* Reads the blocks that nobody else reads; the stores are asked for some of them ahead. */
static void read_blocks_of(op_held_picks *taken, op_call *call, const op_request *asked,
                           const uint32_t *mine, size_t count) {
    size_t begun = 0;
    int64_t ahead = 0;
    for (size_t i = 0; i < count; i++) {
        for (; begun < count && (begun <= i || ahead < BEGUN_AHEAD); begun++) {
            if (begun > i) begin(call, asked, mine[begun]);
            ahead += block_bytes(asked, mine[begun]);
        }
        read_block_of(taken, call, asked, mine[i]);
        ahead -= block_bytes(asked, mine[i]);
    }
}

/* --- taking ------------------------------------------------------------------------------------- */

static void picks_free(op_held_picks *taken) {
    free(taken->records);
    free(taken->slots);
    free(taken->again);
    free(taken);
}

static op_held_picks *picks_new(op_held *all, size_t count) {
    op_held_picks *taken = calloc(1, sizeof *taken);
    if (taken == NULL) return NULL;
    taken->all = all;
    taken->count = count;
    taken->records = calloc(count + 1, sizeof *taken->records);
    taken->slots = calloc(count + 1, sizeof *taken->slots);
    if (taken->records != NULL && taken->slots != NULL) return taken;
    picks_free(taken);
    return NULL;
}

static bool check_picks(op_call *call, const op_request *asked, const int64_t *picks,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        const int64_t block = picks[i] >> 32;
        if (block < 0 || block >= asked->table_rows ||
            (picks[i] & UINT32_MAX) >= asked->table[block].records)
            return fail(&call->why, TF_INVALID_ARGUMENT, "there is no record %" PRId64, picks[i]);
    }
    return true;
}

/* With the lock: the blocks that nobody has begun to read are this call's, and put into `mine`. */
static size_t claim_blocks(held_epoch *epoch, const int64_t *picks, size_t count, uint32_t *mine) {
    size_t claimed = 0;
    for (size_t i = 0; i < count; i++) {
        held_block *block = &epoch->held[picks[i] >> 32];
        if (block->state != NOT_READ) continue;
        block->state = READING;
        mine[claimed++] = (uint32_t)(picks[i] >> 32);
    }
    return claimed;
}

/* With the lock. NULL: it is not there. */
static record_slot *take(held_block *block, uint32_t index) {
    if (index >= block->count) return NULL;
    record_slot *slot = block->slots[index];
    if (slot == NULL) return NULL;
    block->slots[index] = NULL;
    if (--block->left == 0) {
        free(block->slots);
        block->slots = NULL;
        block->count = 0;
    }
    return slot;
}

/* With the lock, which is let go while others read. Answers how many records were not there. */
static size_t take_records(op_held_picks *taken, const int64_t *picks) {
    size_t gone = 0;
    for (size_t i = 0; i < taken->count; i++) {
        held_block *block = &taken->epoch->held[picks[i] >> 32];
        while (block->state == READING) pthread_cond_wait(&taken->all->changed, &taken->all->lock);
        taken->slots[i] = take(block, (uint32_t)picks[i]);
        if (taken->slots[i] != NULL)
            __builtin_prefetch(taken->slots[i]);
        else
            gone++;
    }
    return gone;
}

static void find_records(op_held_picks *taken) {
    for (size_t i = 0; i < taken->count; i++)
        if (taken->slots[i] != NULL)
            taken->records[i] = (ex_bytes){taken->slots[i]->data, taken->slots[i]->size};
}

/* Records behind damage; or somebody had them before, as who restores an iterator twice. */
static bool read_gone(op_held_picks *taken, op_call *call, const op_request *asked,
                      const int64_t *picks, size_t gone) {
    taken->again = calloc(gone, sizeof *taken->again);
    if (taken->again == NULL) return fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory");
    for (size_t i = 0; i < taken->count; i++) {
        if (taken->slots[i] != NULL) continue;
        const op_span alone = {picks[i] >> 32, picks[i] & UINT32_MAX, 1};
        op_run *run = &taken->again[taken->agains++];
        if (!op_check_span(call, asked, &alone) || !op_run_read(call, asked, &alone, run))
            return false;
        if (run->found.count != 1)
            return fail(&call->why, TF_DATA_LOSS, "block %" PRId64 " has fewer records than it had",
                        alone.block);
        taken->records[i] = (ex_bytes){run->found.bytes.data + run->found.offsets[0],
                                       (size_t)run->found.lengths[0]};
    }
    return true;
}

op_held_picks *op_held_take(op_held *all, op_call *call, const op_request *asked, int64_t epoch,
                            const int64_t *picks, size_t count) {
    held_epoch *surplus = NULL;
    if (!check_picks(call, asked, picks, count)) return NULL;
    op_held_picks *taken = picks_new(all, count);
    uint32_t *mine = calloc(count + 1, sizeof *mine);
    size_t claimed = 0, gone = 0;
    if (taken != NULL && mine != NULL) {
        pthread_mutex_lock(&all->lock);
        taken->epoch = use_epoch(all, epoch, asked->table_rows, &surplus);
        if (taken->epoch != NULL) claimed = claim_blocks(taken->epoch, picks, count, mine);
        pthread_mutex_unlock(&all->lock);
        epoch_delete(surplus);
    }
    if (taken != NULL && taken->epoch != NULL) {
        read_blocks_of(taken, call, asked, mine, claimed);
        pthread_mutex_lock(&all->lock);
        gone = take_records(taken, picks);
        pthread_mutex_unlock(&all->lock);
        find_records(taken);
        if (gone > 0) read_gone(taken, call, asked, picks, gone);
    } else {
        fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory");
    }
    free(mine);
    if (call->why.code == TF_OK) return taken;
    op_held_give(taken);
    return NULL;
}

const ex_bytes *op_held_records(const op_held_picks *taken) { return taken->records; }

void op_held_give(op_held_picks *taken) {
    if (taken == NULL) return;
    for (size_t i = 0; i < taken->agains; i++) op_run_release(&taken->again[i]);
    if (taken->epoch != NULL) {
        pthread_mutex_lock(&taken->all->lock);
        for (size_t i = 0; i < taken->count; i++)
            slots_give(&taken->epoch->memory, taken->slots[i]);
        taken->epoch->calls--;
        pthread_mutex_unlock(&taken->all->lock);
    }
    picks_free(taken);
}
