/* Memory for records that wait: they come and go one by one, by the million, and from any thread.
 *
 * malloc would keep what each thread has freed for that thread. Here all share slabs of equal slots, of
 * sizes an eighth apart, so that what one record leaves is the next one's. A slab without records goes.
 * Nothing here takes a lock.
 */
#ifndef TFIO_STORE_TF_SLOTS_H
#define TFIO_STORE_TF_SLOTS_H

#include <stddef.h>
#include <stdint.h>

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

/* A slot for `size` bytes. NULL: no memory. */
record_slot *slots_take(record_slots *all, size_t size);

/* NULL is no slot. */
void slots_give(record_slots *all, record_slot *slot);

#endif
