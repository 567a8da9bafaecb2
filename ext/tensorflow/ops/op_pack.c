#include "tensorflow/ops/op_pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/bytes.h"
#include "tensorflow/ops/op_decode.h"
#include "tfrecord/tfrecord.h"

bool op_segment_at(ex_bytes pack, size_t *at, op_segment *found) {
    if (*at > pack.size || pack.size - *at < SEGMENT_HEAD) return false;
    const uint8_t *head = pack.data + *at;
    const size_t room = pack.size - *at - SEGMENT_HEAD;
    const uint64_t nbytes = load64(head), name_size = load64(head + 24);
    found->records = load64(head + 8);
    found->first = load64(head + 16);
    if (name_size > room || nbytes > room - name_size ||
        found->records > nbytes / TFRECORD_OVERHEAD)
        return false;
    found->name = (ex_bytes){head + SEGMENT_HEAD, (size_t)name_size};
    found->frames = (ex_bytes){found->name.data + name_size, (size_t)nbytes};
    *at += SEGMENT_HEAD + (size_t)name_size + (size_t)nbytes;
    return true;
}

bool op_pack_records(ex_bytes pack, uint64_t *records) {
    op_segment each;
    *records = 0;
    for (size_t at = 0; at < pack.size;) {
        if (!op_segment_at(pack, &at, &each)) return false;
        *records += each.records;
    }
    return true;
}

/* --- records ------------------------------------------------------------------------------------ */

static bool open_segment(op_cursor *cursor, size_t segment, size_t at) {
    cursor->segment = cursor->next = segment;
    cursor->at = at;
    cursor->passed = 0;
    cursor->counts = at == 0;
    return op_segment_at(cursor->pack, &cursor->next, &cursor->of) && at <= cursor->of.frames.size;
}

bool op_cursor_begin(op_cursor *cursor, ex_bytes pack, size_t segment, size_t at) {
    *cursor = (op_cursor){.pack = pack};
    return open_segment(cursor, segment, at);
}

static bool frame_at(ex_bytes frames, size_t *at, ex_bytes *record) {
    if (frames.size - *at < TFRECORD_OVERHEAD) return false;
    const uint8_t *frame = frames.data + *at;
    const uint64_t length = load64(frame);
    if (length > frames.size - *at - TFRECORD_OVERHEAD) return false;
    *record = (ex_bytes){frame + TFRECORD_HEADER, (size_t)length};
    *at += (size_t)length + TFRECORD_OVERHEAD;
    return true;
}

bool op_cursor_ends_segment(const op_cursor *cursor) {
    return cursor->at == cursor->of.frames.size &&
           (!cursor->counts || cursor->passed == cursor->of.records);
}

bool op_cursor_next(op_cursor *cursor, ex_bytes *record) {
    while (cursor->at == cursor->of.frames.size)
        if (!op_cursor_ends_segment(cursor) || !open_segment(cursor, cursor->next, 0)) return false;
    cursor->passed++;
    return frame_at(cursor->of.frames, &cursor->at, record);
}

uint64_t op_frames_before(ex_bytes frames, size_t at) {
    uint64_t count = 0;
    ex_bytes record;
    for (size_t next = 0; next < at && frame_at(frames, &next, &record);) count++;
    return count;
}

/* --- writing ------------------------------------------------------------------------------------ */

static size_t frames_size(const op_part *part) {
    size_t nbytes = part->count * TFRECORD_OVERHEAD;
    for (size_t i = 0; i < part->count; i++) nbytes += (size_t)part->lengths[i];
    return nbytes;
}

size_t op_segment_size(const op_part *part, size_t name_size) {
    return SEGMENT_HEAD + name_size + frames_size(part);
}

static uint8_t *put_head(uint8_t *to, size_t nbytes, uint64_t records, uint64_t first,
                         ex_bytes name) {
    store64(to, nbytes);
    store64(to + 8, records);
    store64(to + 16, first);
    store64(to + 24, name.size);
    memcpy(to + SEGMENT_HEAD, name.data, name.size);
    return to + SEGMENT_HEAD + name.size;
}

/* Whether the part's frames lie one behind the other, which those that came past damage may not. */
static bool lie_together(const op_part *part, size_t nbytes) {
    const int64_t first = part->offsets[0] - TFRECORD_HEADER;
    const int64_t end =
        part->offsets[part->count - 1] + part->lengths[part->count - 1] + TFRECORD_FOOTER;
    bool together =
        first >= 0 && end <= (int64_t)part->bytes.size && end - first == (int64_t)nbytes;
    for (size_t i = 1; together && i < part->count; i++)
        together =
            part->offsets[i] == part->offsets[i - 1] + part->lengths[i - 1] + TFRECORD_OVERHEAD;
    return together;
}

uint8_t *op_segment_put(uint8_t *to, const op_part *part, ex_bytes name, uint64_t first) {
    const size_t nbytes = frames_size(part);
    to = put_head(to, nbytes, part->count, first, name);
    if (part->count > 0 && lie_together(part, nbytes)) {
        memcpy(to, part->bytes.data + part->offsets[0] - TFRECORD_HEADER, nbytes);
        return to + nbytes;
    }
    for (size_t i = 0; i < part->count; i++) {
        const size_t length = (size_t)part->lengths[i];
        memset(to, 0, TFRECORD_HEADER);
        store64(to, length);
        memcpy(to + TFRECORD_HEADER, part->bytes.data + part->offsets[i], length);
        memset(to + TFRECORD_HEADER + length, 0, TFRECORD_FOOTER);
        to += length + TFRECORD_OVERHEAD;
    }
    return to;
}

uint8_t *op_segment_copy(uint8_t *to, const op_segment *segment) {
    to = put_head(to, segment->frames.size, segment->records, segment->first, segment->name);
    memcpy(to, segment->frames.data, segment->frames.size);
    return to + segment->frames.size;
}

/* --- TfioStoreCutPack ------------------------------------------------------------------------- */

/* TfioStoreCutPack: where in a pack batches begin.
 *
 * `left` are the records of earlier packs that fill no batch, `sizes` the records of a batch and the
 * fewest of a last one. Each row of `cuts` is a batch for `TfioStoreReadPack`: whether it begins with
 * `left`, the segment and the byte of its frames where it goes on in `pack`, and how many records are
 * taken from there. `left_out` is what comes behind the last of them. An empty pack is the end: what is
 * left is the last batch, and then OUT_OF_RANGE.
 */

enum { LEFT, PACK, SIZES, CUT = SIZES }; /* inputs */
enum { BEGINS_LEFT, SEGMENT, AT, TAKE, CUT_COLUMNS };

typedef struct {
    ex_bytes left, pack;
    uint64_t have, more; /* records in them */
    uint64_t size, least;
} cutting;

static bool fail_pack(op_call *call) {
    return fail(&call->why, TF_INVALID_ARGUMENT, "the pack makes no sense");
}

static bool input_cutting(op_call *call, cutting *all) {
    const int64_t *sizes = NULL;
    if (!op_input_bytes(call, LEFT, &all->left) || !op_input_bytes(call, PACK, &all->pack) ||
        !op_input_numbers(call, SIZES, 2, &sizes))
        return false;
    if (sizes[0] < 1 || sizes[1] < 1)
        return fail(&call->why, TF_INVALID_ARGUMENT, "sizes are not 1 or more records, twice");
    all->size = (uint64_t)sizes[0];
    all->least = (uint64_t)sizes[1];
    bool right = op_pack_records(all->left, &all->have) && op_pack_records(all->pack, &all->more);
    return (right && all->have < all->size) || fail_pack(call);
}

static int64_t *output_cuts(op_call *call, uint64_t batches) {
    const int64_t dims[2] = {(int64_t)batches, CUT_COLUMNS};
    return op_output_tensor(call, 1, TF_INT64, dims, 2);
}

/* Notes every batch, and moves behind the last. */
static bool cut_batches(op_call *call, const cutting *all, op_cursor *cursor) {
    const uint64_t batches = (all->have + all->more) / all->size;
    int64_t *row = output_cuts(call, batches);
    if (row == NULL) return false;
    for (uint64_t i = 0; i < batches; i++, row += CUT_COLUMNS) {
        const uint64_t wanted = all->size - (i == 0 ? all->have : 0);
        const int64_t cut[] = {i == 0 && all->have > 0, (int64_t)cursor->segment,
                               (int64_t)cursor->at, (int64_t)wanted};
        ex_bytes ignored;
        memcpy(row, cut, sizeof cut);
        for (uint64_t k = 0; k < wanted; k++)
            if (!op_cursor_next(cursor, &ignored)) return fail_pack(call);
    }
    return true;
}

/* What is left: of `left` if there was no batch, and what lies behind the cursor. */
static bool output_left(op_call *call, const cutting *all, const op_cursor *cursor) {
    const bool some = cursor->at < cursor->of.frames.size, none = all->have + all->more < all->size;
    op_segment rest = cursor->of;
    if (some ? cursor->passed >= rest.records : !op_cursor_ends_segment(cursor))
        return fail_pack(call);
    rest.records -= cursor->passed;
    rest.first += cursor->passed;
    rest.frames.data += cursor->at;
    rest.frames.size -= cursor->at;
    const size_t before = none ? all->left.size : 0, behind = all->pack.size - cursor->next;
    const size_t here = some ? SEGMENT_HEAD + rest.name.size + rest.frames.size : 0;
    const int64_t nbytes = (int64_t)(before + here + behind);
    uint8_t *to = op_output_tensor(call, 0, TF_UINT8, &nbytes, 1);
    if (to == NULL) return false;
    if (before > 0) memcpy(to, all->left.data, before);
    to += before;
    if (some) to = op_segment_copy(to, &rest);
    if (behind > 0) memcpy(to, all->pack.data + cursor->next, behind);
    return true;
}

/* What is left is the last batch, if it has enough records. */
static void end(op_call *call, const cutting *all) {
    const int64_t nothing = 0;
    const bool enough = all->have >= all->least;
    if (all->left.size == 0) {
        fail(&call->why, TF_OUT_OF_RANGE, "the packs have ended");
        return;
    }
    int64_t *row = output_cuts(call, enough ? 1 : 0);
    if (row != NULL && enough)
        memcpy(row, (const int64_t[]){1, 0, 0, 0}, CUT_COLUMNS * sizeof *row);
    op_output_tensor(call, 0, TF_UINT8, &nothing, 1);
}

void op_cut_pack(void *kernel, TF_OpKernelContext *context) {
    op_call call;
    cutting all;
    op_cursor cursor;
    (void)kernel;
    if (op_call_begin(&call, context, 3) && input_cutting(&call, &all)) {
        if (all.pack.size == 0)
            end(&call, &all);
        else if (!op_cursor_begin(&cursor, all.pack, 0, 0))
            fail_pack(&call);
        else if (cut_batches(&call, &all, &cursor))
            output_left(&call, &all, &cursor);
    }
    op_call_end(&call);
}

/* --- TfioStoreReadPack ------------------------------------------------------------------------ */

/* TfioStoreReadPack: a batch of records that TfioStoreCutPack found in a pack, as they are or decoded. */

/* --- the kernel --------------------------------------------------------------------------------- */

void op_pack_delete(void *kernel) {
    if (kernel != NULL) op_columns_release(kernel);
    free(kernel);
}

void *op_pack_new(TF_OpKernelConstruction *context) {
    TF_Status *status = tf.NewStatus();
    op_columns *columns = calloc(1, sizeof *columns);
    if (columns == NULL)
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    else
        op_columns_attribute(columns, context, status);
    return op_kernel_made(context, status, columns, op_pack_delete);
}

/* --- the op ------------------------------------------------------------------------------------- */

typedef struct {
    ex_bytes left, pack;
    const int64_t *cut;
} packed_batch;

static bool fail_batch(op_call *call) {
    return fail(&call->why, TF_INVALID_ARGUMENT, "the pack has no such batch");
}

static bool input_batch(op_call *call, packed_batch *batch) {
    if (!op_input_bytes(call, LEFT, &batch->left) || !op_input_bytes(call, PACK, &batch->pack) ||
        !op_input_numbers(call, CUT, CUT_COLUMNS, &batch->cut))
        return false;
    const int64_t *cut = batch->cut;
    bool right = cut[SEGMENT] >= 0 && cut[AT] >= 0 && cut[TAKE] >= 0 &&
                 (uint64_t)cut[TAKE] <= batch->pack.size / TFRECORD_OVERHEAD;
    if (right && cut[BEGINS_LEFT] == 0) batch->left = (ex_bytes){batch->left.data, 0};
    return right || fail_batch(call);
}

static bool add_records(op_records *list, op_cursor *from, uint64_t count) {
    ex_bytes record;
    for (uint64_t i = 0; i < count; i++)
        if (!op_cursor_next(from, &record) || !op_records_put(list, record)) return false;
    return true;
}

/* All that is left of earlier packs. */
static bool add_left(op_records *list, ex_bytes left, uint64_t count) {
    op_cursor from;
    return left.size == 0 ||
           (op_cursor_begin(&from, left, 0, 0) && add_records(list, &from, count) &&
            op_cursor_ends_segment(&from) && from.next == left.size);
}

static bool add_cut(op_records *list, ex_bytes pack, const int64_t *cut) {
    op_cursor from;
    return cut[TAKE] == 0 || (op_cursor_begin(&from, pack, (size_t)cut[SEGMENT], (size_t)cut[AT]) &&
                              add_records(list, &from, (uint64_t)cut[TAKE]));
}

static op_records *find_records(op_call *call, const packed_batch *batch) {
    uint64_t left = 0;
    if (!op_pack_records(batch->left, &left)) {
        fail_batch(call);
        return NULL;
    }
    op_records *list = op_records_new((size_t)(left + (uint64_t)batch->cut[TAKE]), &call->why);
    if (list != NULL && add_left(list, batch->left, left) && add_cut(list, batch->pack, batch->cut))
        return list;
    if (list != NULL) fail_batch(call);
    op_records_delete(list);
    return NULL;
}

/* The name and number of the record whose bytes begin at `record`. */
static bool place_of(ex_bytes pack, const uint8_t *record, char *place, size_t size) {
    op_segment each;
    for (size_t at = 0; op_segment_at(pack, &at, &each);) {
        if (record < each.frames.data || record > each.frames.data + each.frames.size) continue;
        const uint64_t behind = op_frames_before(each.frames, (size_t)(record - each.frames.data));
        const uint64_t number = each.first + behind - 1;
        const int length = (int)(each.name.size < size / 2 ? each.name.size : size / 2);
        snprintf(place, size, "%.*s: record %" PRIu64 " (the first is 0)", length,
                 (const char *)each.name.data, number);
        return true;
    }
    return false;
}

static void fail_record(op_call *call, const packed_batch *batch, const uint8_t *record,
                        const op_fault *fault) {
    char place[1024] = "a record";
    if (!place_of(batch->left, record, place, sizeof place))
        place_of(batch->pack, record, place, sizeof place);
    op_fault_fail(fault, place, &call->why);
}

void op_read_pack(void *kernel, TF_OpKernelContext *context) {
    const op_columns *columns = kernel;
    op_call call;
    packed_batch batch;
    op_fault fault;
    if (op_call_begin(&call, context, 3) && op_check_outputs(&call, columns) &&
        input_batch(&call, &batch)) {
        op_records *list = find_records(&call, &batch);
        const ex_bytes *records = list != NULL ? op_records_all(list) : NULL;
        if (list != NULL &&
            !op_output_rows(&call, columns, records, op_records_count(list), &fault) &&
            fault.status != EX_OK)
            fail_record(&call, &batch, records[fault.record].data, &fault);
        op_records_delete(list);
    }
    op_call_end(&call);
}
