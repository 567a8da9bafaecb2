#include "tensorflow/ops/part.h"

#include <inttypes.h>
#include <string.h>

#include "crc32c/crc32c.h"
#include "tfrecord/tfrecord.h"

static bool fail_fault(failure *why, const record_search *wanted, const tfrecord_cursor *at) {
    int64_t offset = wanted->base + (int64_t)at->offset;
    if (at->fault == TFRECORD_TOO_LARGE)
        return fail(why, TF_RESOURCE_EXHAUSTED,
                    "%s: the record at offset %" PRId64 " claims %" PRIu64
                    " bytes, over the limit of %" PRIu64
                    "; pass a larger max_record_bytes= if it is real",
                    wanted->url, offset, at->need, wanted->limit);
    const char *reason = "the data ends inside a record";
    if (at->fault == TFRECORD_LENGTH_CRC)
        reason = "the checksum of a record's length does not hold";
    if (at->fault == TFRECORD_DATA_CRC) reason = "the checksum of a record's data does not hold";
    return fail(why, TF_DATA_LOSS, "%s: %s (offset %" PRId64 ")", wanted->url, reason, offset);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static bool make_table(record_part *found, size_t capacity, failure *why) {
    if (!chunk_take(&found->table, 2 * capacity * sizeof(int64_t), why)) return false;
    found->offsets = found->table.memory;
    found->lengths = found->offsets + capacity;
    return true;
}

bool part_search(record_part *found, const record_search *wanted, failure *why) {
    const chunk *bytes = &found->bytes;
    /* No more fit, whatever anybody claims; and one, so that bytes too few for any are looked at. */
    size_t possible = bytes->size / TFRECORD_OVERHEAD + 1;
    size_t skip = least(wanted->skip, possible), take = least(wanted->take, possible);
    if (!make_table(found, skip > take ? skip : take, why)) return false;
    tfrecord_cursor at = {0};
    if (skip > 0) {
        tfrecord_walk(&at, bytes->data, bytes->size, wanted->limit, found->offsets, skip);
        if (at.fault != TFRECORD_OK) return fail_fault(why, wanted, &at);
    }
    if (at.offset <= bytes->size)
        tfrecord_scan(&at, bytes->data, bytes->size, wanted->limit, wanted->verify, found->offsets,
                      found->lengths, take);
    found->count = at.offset <= bytes->size ? at.count : 0;
    found->end = at.offset;
    if (at.fault != TFRECORD_OK || (wanted->whole && at.need > 0))
        return fail_fault(why, wanted, &at);
    return true;
}

void part_release(record_part *found) {
    chunk_release(&found->bytes);
    chunk_release(&found->table);
    found->count = 0;
}
