/* Any bytes into the framing code: each answer is held to the format, read anew by `oracle.h`.
 *
 * The first byte chooses limit and capacity, the second the CRC kernel and where the data is split or
 * begun, the rest is the stream. Since random bytes almost never carry a CRC that holds, half of the
 * mutations end with mending the CRCs along the stream's frames, so that what lies behind the checks
 * is reached as well.
 */
#include <string.h>

#include "crc32c/crc32c.h"
#include "oracle.h"

enum { OPTIONS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *input, size_t size, size_t max_size);

/* One of the kernels that this CPU runs. */
static void use_kernel(size_t choice) {
    size_t count = 0, seen = 0;
    for (size_t i = 0; crc32c_kernels[i] != NULL; i++) count += crc32c_kernels[i]->supported();
    for (size_t i = 0; crc32c_kernels[i] != NULL; i++)
        if (crc32c_kernels[i]->supported() && seen++ == choice % count)
            crc32c_active = crc32c_kernels[i];
}

/* Scans what is there of the data, then goes on when the rest has come. */
static void check_scan(const uint8_t *data, size_t size, uint64_t limit, const truth *all,
                       size_t capacity, size_t split) {
    static int64_t offsets[MOST], lengths[MOST];
    tfrecord_cursor first = {0}, second;
    tfrecord_scan(&first, data, split, limit, true, offsets, lengths, capacity);
    HOLD(first.count <= capacity && first.offset <= split);
    second = (tfrecord_cursor){.offset = first.offset};
    tfrecord_scan(&second, data, size, limit, true, offsets + first.count, lengths + first.count,
                  capacity - first.count);
    size_t found = first.count + second.count;
    HOLD(found == (all->count < capacity ? all->count : capacity));
    HOLD(memcmp(offsets, all->offsets, found * sizeof *offsets) == 0);
    HOLD(memcmp(lengths, all->lengths, found * sizeof *lengths) == 0);
    if (found == capacity) {
        HOLD(second.fault == TFRECORD_OK && second.need == 0);
    } else {
        HOLD(second.offset == all->end);
        HOLD(second.fault == all->says.fault && second.need == all->says.need);
    }
}

/* The records, framed anew, are the same bytes. */
static void check_put(const uint8_t *data, const truth *all) {
    static const uint8_t *records[MOST];
    static size_t sizes[MOST];
    for (size_t i = 0; i < all->count; i++) {
        records[i] = data + all->offsets[i];
        sizes[i] = (size_t)all->lengths[i];
    }
    uint8_t *again = malloc(all->end + 1);
    HOLD(again != NULL);
    HOLD(tfrecord_put(again, records, sizes, all->count) == again + all->end);
    HOLD(memcmp(again, data, all->end) == 0);
    free(again);
}

static void check_walk(const uint8_t *data, size_t size, uint64_t limit, size_t capacity) {
    static int64_t frames[MOST];
    tfrecord_cursor cursor = {0};
    uint64_t offset = 0;
    tfrecord_walk(&cursor, data, size, limit, frames, capacity);
    for (size_t i = 0; i < cursor.count; i++) {
        HOLD(frames[i] == (int64_t)offset && offset + TFRECORD_HEADER <= size);
        HOLD(header_holds(data + offset) && load64(data + offset) <= limit);
        offset += load64(data + offset) + TFRECORD_OVERHEAD;
    }
    HOLD(cursor.offset == offset);
    bool stopped = cursor.count == capacity || offset >= size;
    if (!stopped && size - offset >= TFRECORD_HEADER)
        HOLD(cursor.fault ==
             (header_holds(data + offset) ? TFRECORD_TOO_LARGE : TFRECORD_LENGTH_CRC));
    else
        HOLD(cursor.fault == TFRECORD_OK && cursor.need == (stopped ? 0 : TFRECORD_HEADER));
}

static void check_find(const uint8_t *data, size_t size, size_t start, uint64_t limit) {
    bool found;
    tfrecord_cursor says;
    uint64_t patience = UINT64_MAX;
    size_t at = tfrecord_find(data, size, start, limit, false, &patience, &found);
    HOLD(start <= at && at <= size);
    for (size_t offset = start; offset < at; offset++)
        HOLD(judge(data + offset, size - offset, limit, true, &says) == 0 &&
             says.fault != TFRECORD_OK);
    HOLD((judge(data + at, size - at, limit, true, &says) > 0) == found);
    HOLD(says.fault == TFRECORD_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static truth all;
    if (size < OPTIONS || size > (size_t)TFRECORD_OVERHEAD * MOST) return 0;
    uint64_t limit = choose_limit(input[0]);
    size_t capacity = input[0] & 4 ? MOST : (input[0] >> 4) + 1u;
    size_t place = input[1] >> 3; /* 0 to 31, over the whole of the data */
    use_kernel(input[1] & 7);
    size -= OPTIONS;
    size_t split = place * size / 31;
    uint8_t *data = malloc(size + !size); /* exactly what there is: one byte too many is seen */
    HOLD(data != NULL);
    memcpy(data, input + OPTIONS, size);
    HOLD(crc32c_extend(input[0], data + split, size - split) ==
         oracle_crc(input[0], data + split, size - split));
    read_truth(&all, data, size, 0, limit, true);
    check_scan(data, size, limit, &all, capacity, split);
    check_put(data, &all);
    check_walk(data, size, limit, capacity);
    check_find(data, size, split, limit);
    free(data);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(input, size, max_size);
    if (size > OPTIONS && seed % 2 == 0) mend(input + OPTIONS, size - OPTIONS, seed / 2);
    return size;
}
