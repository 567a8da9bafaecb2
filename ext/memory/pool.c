/* See pool.h. There are a few slots; the oldest is given up first.
 *
 * Large memory is mapped, and goes back to the system at once when it is given up. malloc would keep
 * it for the thread that took it: of each of many threads as much as it ever had.
 *
 * A thread tries the lock and never waits for it: if another holds it, the system serves. So a
 * child that was forked while a thread held the lock still works.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#define _DARWIN_C_SOURCE
#include "memory/pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SLOTS 128
#define SMALLEST ((size_t)32 << 10) /* below this malloc reuses memory well enough */
#define LARGEST POOL_LEAST
#define MAPPED ((size_t)2 << 20)  /* from here on memory is mapped */
#define HUGE_AT ((size_t)8 << 20) /* a huge page reaches into the unused part of shorter memory */

typedef struct {
    void *memory;
    size_t capacity;
} slot;

static slot slots[SLOTS]; /* slots[0 .. used) in order of age, the oldest first */
static size_t used;
static atomic_size_t kept; /* which who does not hold the lock reads too */
static atomic_llong
    lent; /* also by a module's own pool, before it borrowed this one: about so much */
static atomic_size_t limit = POOL_LIMIT;
static atomic_flag locked = ATOMIC_FLAG_INIT;

static void *fresh(size_t size) {
    if (size < MAPPED) return malloc(size);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE /* one page fault for 2 MiB, where the system has such pages */
    if (size >= HUGE_AT) (void)madvise(memory, size, MADV_HUGEPAGE);
#endif
    return memory;
}

static void drop(void *memory, size_t capacity) {
    if (capacity < MAPPED)
        free(memory);
    else if (memory != NULL)
        munmap(memory, capacity);
}

static bool try_lock(void) {
    return !atomic_flag_test_and_set_explicit(&locked, memory_order_acquire);
}

static void unlock(void) { atomic_flag_clear_explicit(&locked, memory_order_release); }

static slot remove_slot(size_t i) {
    slot removed = slots[i];
    used--;
    kept -= removed.capacity;
    for (; i < used; i++) slots[i] = slots[i + 1];
    return removed;
}

/* The youngest that is large enough and not wastefully large: its pages are likeliest in cache. */
static slot find_slot(size_t size) {
    for (size_t i = used; i-- > 0;)
        if (slots[i].capacity >= size && slots[i].capacity / 2 <= size) return remove_slot(i);
    return (slot){NULL, 0};
}

/* Whether so much is more than may be kept beside what is in use. */
static bool too_much(size_t wanted) {
    long long in_use = lent > 0 ? lent : 0;
    return wanted > POOL_LEAST && wanted + (size_t)in_use > limit;
}

static void drop_oldest(void) {
    slot oldest = remove_slot(0);
    drop(oldest.memory, oldest.capacity);
}

static void *own_take(size_t size, size_t *capacity) {
    slot taken = {NULL, 0};
    if (size >= SMALLEST && try_lock()) {
        if (size <= LARGEST) taken = find_slot(size);
        /* what is kept in other sizes must not come on top of what is used */
        while (taken.memory == NULL && kept > POOL_LEAST && too_much(kept + size)) drop_oldest();
        unlock();
    }
    if (taken.memory == NULL) {
        taken.capacity = size > 0 ? size : 1;
        taken.memory = fresh(taken.capacity);
    }
    *capacity = taken.capacity;
    if (taken.memory != NULL && taken.capacity >= SMALLEST) lent += (long long)taken.capacity;
    return taken.memory;
}

static void own_give(void *memory, size_t capacity) {
    if (memory != NULL && capacity >= SMALLEST) lent -= (long long)capacity;
    if (memory == NULL || capacity < SMALLEST || capacity > LARGEST || !try_lock()) {
        drop(memory, capacity);
        return;
    }
    while (used == SLOTS || too_much(kept + capacity)) drop_oldest();
    slots[used++] = (slot){memory, capacity};
    kept += capacity;
    unlock();
}

void pool_serve(size_t threads, size_t budget) {
    const size_t most = POOL_LIMIT_MOST / POOL_LIMIT_EACH;
    size_t wanted = POOL_LIMIT_EACH * (threads < most ? threads : most);
    if (budget < wanted && wanted > budget + POOL_LEAST) wanted = budget + POOL_LEAST;
    if (wanted > limit) limit = wanted;
}

static size_t own_kept(void) { return kept; }

static const pool_functions own = {own_take, own_give, own_kept};
static const pool_functions *serving = &own;

void *pool_take(size_t size, size_t *capacity) { return serving->take(size, capacity); }

void pool_give(void *memory, size_t capacity) { serving->give(memory, capacity); }

size_t pool_kept(void) { return serving->kept(); }

const pool_functions *pool_lend(void) { return serving; }

void pool_borrow(const pool_functions *lent) { serving = lent; }
