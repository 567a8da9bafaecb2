#include "tensorflow/ops/slots.h"

#include <stdlib.h>

#include "memory/pool.h"

/* Sizes of slots: 64, 72, 80 … 128, 144 … bytes. */
enum { SMALLEST_BITS = 6, STEP_BITS = 3, STEPS = 1 << STEP_BITS, LARGEST_SLOT = 128 << 10 };
enum { SLOTS_OF_SLAB = 16, SMALLEST_SLAB = 64 << 10 };

struct slab {
    slab *newer, *older; /* of its class's list, while it has a free slot */
    void *free; /* a list through the first word of each free slot */
    size_t taken, slots;
    size_t class, capacity;
};

static size_t class_of(size_t nbytes, size_t *rounded) {
    size_t bits = SMALLEST_BITS;
    while (((size_t)2 << bits) <= nbytes) bits++;
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
    size_t capacity = 0, nbytes = slot_size * SLOTS_OF_SLAB + sizeof(slab);
    slab *of = pool_take(nbytes > SMALLEST_SLAB ? nbytes : SMALLEST_SLAB, &capacity);
    if (of == NULL) return NULL;
    const size_t slots = (capacity - sizeof *of) / slot_size;
    *of = (slab){.slots = slots, .class = class, .capacity = capacity};
    char *at = (char *)(of + 1);
    for (size_t i = slots; i-- > 0;) {
        void **slot = (void **)(void *)(at + i * slot_size);
        *slot = of->free;
        of->free = slot;
    }
    link_slab(all, of);
    return of;
}

/* ------------------------------------------------------------------------------------------------ */

record_slot *slots_take(record_slots *all, size_t size) {
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
        slot = home->free;
        home->free = *(void **)home->free;
        if (++home->taken == home->slots) unlink_slab(all, home);
    }
    if (slot == NULL) return NULL;
    slot->home = home;
    slot->size = size;
    return slot;
}

void slots_give(record_slots *all, record_slot *slot) {
    if (slot == NULL) return;
    slab *home = slot->home;
    if (home == NULL) {
        free(slot);
        return;
    }
    *(void **)(void *)slot = home->free;
    home->free = slot;
    if (home->taken-- == home->slots) link_slab(all, home);
    if (home->taken == 0) {
        unlink_slab(all, home);
        pool_give(home, home->capacity);
    }
}
