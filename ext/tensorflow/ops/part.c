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

static bool is_known(const record_search *wanted) {
    return wanted->whole && wanted->sums.behind >= 0;
}

/* Whether a block of so many bytes holds the records that its index tells of. */
static bool is_as_told(const tfrecord_cursor *at, const record_search *wanted, size_t size,
                       failure *why) {
    if (!is_known(wanted)) return true;
    if (size < wanted->size)
        return fail(
            why, TF_DATA_LOSS,
            "%s: the data ends inside a block: %zu of its bytes are missing (offset %" PRId64 ")",
            wanted->url, wanted->size - size, wanted->base + (int64_t)size);
    if ((int64_t)at->sum == wanted->sums.behind) return true;
    return fail(why, TF_FAILED_PRECONDITION,
                "%s: does not hold the records that its index tells of (block at offset %" PRId64
                "): this file or its manifest was replaced; make the dataset again to read what is "
                "there now",
                wanted->url, wanted->base);
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
    tfrecord_cursor at = {.sum = (uint32_t)wanted->sums.before};
    if (skip > 0) {
        tfrecord_scan(&at, bytes->data, bytes->size, wanted->limit, false, found->offsets,
                      found->lengths, skip);
        if (at.fault != TFRECORD_OK) return fail_fault(why, wanted, &at);
    }
    const bool passed = at.count == skip;
    if (passed)
        tfrecord_scan(&at, bytes->data, bytes->size, wanted->limit, wanted->verify, found->offsets,
                      found->lengths, take);
    /* As many records in fewer bytes are those of another shard. Fewer are what is left of a file
     * that was cut off, and are given before the error. */
    const bool others = is_known(wanted) && bytes->size < wanted->size && at.count == wanted->take;
    found->count = passed && !others ? at.count : 0;
    found->end = at.offset;
    if (at.fault != TFRECORD_OK || (wanted->whole && at.need > 0))
        return fail_fault(why, wanted, &at);
    if (is_as_told(&at, wanted, bytes->size, why)) return true;
    if (bytes->size >= wanted->size) found->count = 0;
    return false;
}

void part_release(record_part *found) {
    chunk_release(&found->bytes);
    chunk_release(&found->table);
    found->count = 0;
}
