#include "tensorflow/ops/tiles.h"

#include <string.h>

enum {
    AHEAD =
        8, /* records that are called into the cache before their turn: they come in any order */
    LINE = 64,   /* bytes of a cache line */
    PADDING = 12 /* columns a power of two apart would share the same few sets of the cache */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

bool tiles_begin(tiles *of, const column_list *wanted, const ex_bytes *records, size_t count,
                 bool all, failure *why) {
    /* what key came behind which: of each map for itself */
    size_t slots = 0, order = (wanted->count + 2) * sizeof(uint32_t), nbytes = 0;
    *of = (tiles){.records = records,
                  .count = count,
                  .columns = wanted->count,
                  .features = wanted->found,
                  .lists = wanted->found_lists};
    of->stride = least(count, TILE) + PADDING;
    of->kept = all ? (count + TILE - 1) / TILE : 1;
    if (__builtin_mul_overflow(of->stride * of->kept, of->columns, &slots) ||
        __builtin_mul_overflow(slots, sizeof(ex_bytes), &nbytes))
        return fail(why, TF_RESOURCE_EXHAUSTED, "out of memory");
    if (!chunk_take(&of->memory, nbytes + order, why)) return false;
    of->slots = of->memory.memory;
    of->features.next = (uint32_t *)(void *)(of->slots + slots);
    of->lists.next = of->features.next + wanted->features + 1;
    memset(of->features.next, 0, order);
    return true;
}

void tiles_release(tiles *of) { chunk_release(&of->memory); }

size_t tile_count(const tiles *of, size_t start) { return least(of->count - start, TILE); }

static ex_bytes *column_slots(const tiles *of, size_t start, size_t k) {
    size_t tile = of->kept > 1 ? start / TILE : 0;
    return of->slots + (tile * of->columns + k) * of->stride;
}

const ex_bytes *tile_column(const tiles *of, size_t start, size_t k) {
    return column_slots(of, start, k);
}

/* Of one record: both maps of a SequenceExample, and the one of an Example. */
static ex_status locate(tiles *of, ex_bytes record, ex_bytes *slots) {
    ex_status status = ex_locate(&of->features, record, EX_FEATURES, slots, of->stride);
    if (status != EX_OK || of->lists.count == 0) return status;
    slots += of->features.count * of->stride;
    return ex_locate(&of->lists, record, EX_FEATURE_LISTS, slots, of->stride);
}

ex_status tile_locate(tiles *of, size_t start, size_t *failed) {
    ex_bytes *slots = column_slots(of, start, 0);
    size_t n = tile_count(of, start);
    for (size_t i = 0; i < n; i++) {
        if (start + i + AHEAD < of->count) {
            const uint8_t *later = of->records[start + i + AHEAD].data;
            __builtin_prefetch(later);
            __builtin_prefetch(later + LINE);
            __builtin_prefetch(later + 2 * LINE);
        }
        ex_status status = locate(of, of->records[start + i], slots + i);
        if (status != EX_OK) {
            *failed = start + i;
            return status;
        }
    }
    return EX_OK;
}
