/* TfioStoreReadPack: a batch of records that TfioStoreCutPack found in a pack, as they are or decoded. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/ops/decode.h"
#include "tensorflow/ops/kernels.h"
#include "tensorflow/ops/pack.h"
#include "tensorflow/ops/settings.h"
#include "tfrecord/tfrecord.h"

enum { LEFT, PACK, CUT };
enum { BEGINS_LEFT, SEGMENT, AT, TAKE, CUT_COLUMNS };

/* --- the kernel --------------------------------------------------------------------------------- */

void packed_delete(void *kernel) {
    if (kernel != NULL) columns_release(kernel);
    free(kernel);
}

void *packed_new(TF_OpKernelConstruction *context) {
    TF_Status *status = tf.NewStatus();
    column_list *columns = calloc(1, sizeof *columns);
    failure why = {TF_OK, ""};
    size_t size = 0;
    char *text = text_attribute(context, "columns", &size, status);
    if (tf.GetCode(status) != TF_OK)
        free(text);
    else if (columns == NULL)
        fail(&why, TF_RESOURCE_EXHAUSTED, "out of memory");
    else
        columns_parse(columns, text, size, &why);
    if (why.code != TF_OK) tf.SetStatus(status, why.code, why.message);
    if (tf.GetCode(status) != TF_OK) {
        tf.OpKernelConstruction_Failure(context, status);
        packed_delete(columns);
        columns = NULL;
    }
    tf.DeleteStatus(status);
    return columns;
}

/* --- the op ------------------------------------------------------------------------------------- */

typedef struct {
    ex_bytes left, pack;
    const int64_t *cut;
} packed_batch;

static bool fail_batch(kernel_call *now) {
    return fail(&now->why, TF_INVALID_ARGUMENT, "the pack has no such batch");
}

static bool input_batch(kernel_call *now, packed_batch *batch) {
    if (!input_bytes(now, LEFT, &batch->left) || !input_bytes(now, PACK, &batch->pack) ||
        !input_numbers(now, CUT, CUT_COLUMNS, &batch->cut))
        return false;
    const int64_t *cut = batch->cut;
    bool right = cut[SEGMENT] >= 0 && cut[AT] >= 0 && cut[TAKE] >= 0 &&
                 (uint64_t)cut[TAKE] <= batch->pack.size / TFRECORD_OVERHEAD;
    if (right && cut[BEGINS_LEFT] == 0) batch->left = (ex_bytes){batch->left.data, 0};
    return right || fail_batch(now);
}

static bool add_records(record_list *list, pack_cursor *from, uint64_t count) {
    ex_bytes record;
    for (uint64_t i = 0; i < count; i++)
        if (!cursor_next(from, &record) || !records_put(list, record)) return false;
    return true;
}

/* All that is left of earlier packs. */
static bool add_left(record_list *list, ex_bytes left, uint64_t count) {
    pack_cursor from;
    return left.size == 0 || (cursor_begin(&from, left, 0, 0) && add_records(list, &from, count) &&
                              cursor_ends_segment(&from) && from.next == left.size);
}

static bool add_cut(record_list *list, ex_bytes pack, const int64_t *cut) {
    pack_cursor from;
    return cut[TAKE] == 0 || (cursor_begin(&from, pack, (size_t)cut[SEGMENT], (size_t)cut[AT]) &&
                              add_records(list, &from, (uint64_t)cut[TAKE]));
}

static record_list *find_records(kernel_call *now, const packed_batch *batch) {
    uint64_t left = 0;
    if (!pack_records(batch->left, &left)) {
        fail_batch(now);
        return NULL;
    }
    record_list *list = records_new((size_t)(left + (uint64_t)batch->cut[TAKE]), &now->why);
    if (list != NULL && add_left(list, batch->left, left) && add_cut(list, batch->pack, batch->cut))
        return list;
    if (list != NULL) fail_batch(now);
    records_delete(list);
    return NULL;
}

/* The name and number of the record whose bytes begin at `record`. */
static bool place_of(ex_bytes pack, const uint8_t *record, char *place, size_t size) {
    pack_segment each;
    for (size_t at = 0; segment_at(pack, &at, &each);) {
        if (record < each.frames.data || record > each.frames.data + each.frames.size) continue;
        const uint64_t behind = frames_before(each.frames, (size_t)(record - each.frames.data));
        const uint64_t number = each.first + behind - 1;
        const int length = (int)(each.name.size < size / 2 ? each.name.size : size / 2);
        snprintf(place, size, "%.*s: record %" PRIu64 " (the first is 0)", length,
                 (const char *)each.name.data, number);
        return true;
    }
    return false;
}

static void fail_record(kernel_call *now, const packed_batch *batch, const uint8_t *record,
                        const decode_fault *fault) {
    char place[1024] = "a record";
    if (!place_of(batch->left, record, place, sizeof place))
        place_of(batch->pack, record, place, sizeof place);
    decode_fail(fault, place, &now->why);
}

void read_pack(void *kernel, TF_OpKernelContext *context) {
    const column_list *columns = kernel;
    kernel_call now;
    packed_batch batch;
    decode_fault fault;
    if (call_begin(&now, context, 3) && check_outputs(&now, columns) && input_batch(&now, &batch)) {
        record_list *list = find_records(&now, &batch);
        const ex_bytes *records = list != NULL ? records_all(list) : NULL;
        if (list != NULL && !output_rows(&now, columns, records, records_count(list), &fault) &&
            fault.status != EX_OK)
            fail_record(&now, &batch, records[fault.record].data, &fault);
        records_delete(list);
    }
    call_end(&now);
}
