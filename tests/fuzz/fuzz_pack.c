/* Any packs into the ops that cut batches from them: either every record comes out once and in order, or
 * the failure has a text.
 *
 * The input is a uint8 size of a batch, a uint8 of the fewest records of a last one, a uint8 of the
 * record that does not parse, then each pack behind its uint16 size. Tensors are stand-ins: memory of
 * exactly their size.
 */
#include <string.h>

#include "oracle.h"
#include "tensorflow/ops/op_decode.h"
#include "tensorflow/ops/op_pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

struct tf_abi tf;

/* --- one call ----------------------------------------------------------------------------------- */

static struct {
    ex_bytes left, pack; /* the inputs */
    const int64_t *numbers;
    int64_t count;
    void *outputs[2];
    int64_t sizes[2]; /* bytes, or rows */
    failure why;
    size_t bad; /* the record of the whole run that does not parse */
} op;

static ex_bytes met[MOST];
static size_t records, announced;

bool op_call_begin(op_call *call, TF_OpKernelContext *context, int inputs) {
    HOLD(inputs == 3 && context == NULL);
    call->why.code = TF_OK;
    call->why.message[0] = '\0';
    return true;
}

void op_call_end(op_call *call) {
    op.why.code = call->why.code;
    HOLD(op.why.code == TF_OK || call->why.message[0] != '\0');
}

bool op_input_bytes(op_call *call, int input, ex_bytes *bytes) {
    *bytes = input == 0 ? op.left : op.pack;
    return call != NULL;
}

bool op_input_numbers(op_call *call, int input, int64_t count, const int64_t **numbers) {
    HOLD(input == 2 && count == op.count);
    *numbers = op.numbers;
    return call != NULL;
}

void *op_output_tensor(op_call *call, int index, TF_DataType type, const int64_t *dims, int rank) {
    size_t nbytes = (size_t)dims[0];
    HOLD(index < 2 && op.outputs[index] == NULL && dims[0] >= 0 && call != NULL);
    HOLD(index == 0 ? type == TF_UINT8 && rank == 1 : rank == 2 && dims[1] == 4);
    if (index == 1) nbytes *= 4 * sizeof(int64_t);
    op.sizes[index] = dims[0];
    op.outputs[index] = malloc(nbytes + !nbytes);
    return op.outputs[index];
}

bool op_check_outputs(op_call *call, const op_columns *wanted) { return call != NULL && !wanted; }

bool op_output_rows(op_call *call, const op_columns *wanted, const ex_bytes *all, size_t count,
                    op_fault *fault) {
    (void)call, (void)wanted;
    HOLD(count == announced && records + count <= MOST);
    bool good = op.bad < records || op.bad >= records + count;
    if (!good) *fault = (op_fault){.record = op.bad - records, .status = EX_CUT};
    if (count > 0) memcpy(met + records, all, count * sizeof *all);
    records += count;
    return good;
}

bool op_fault_fail(const op_fault *fault, const char *place, failure *why) {
    HOLD(fault->status == EX_CUT && strstr(place, "record") != NULL);
    return fail(why, TF_INVALID_ARGUMENT, "does not parse");
}

void op_columns_attribute(op_columns *of, TF_OpKernelConstruction *context, TF_Status *status) {
    HOLD(!of && context && status);
}
void *op_kernel_made(TF_OpKernelConstruction *context, TF_Status *status, void *kernel,
                     void (*destroy)(void *kernel)) {
    HOLD(!context && status && kernel && destroy);
    return NULL;
}
void op_columns_release(op_columns *of) { HOLD(of == NULL); }

/* --- all packs, as a pipeline has them ---------------------------------------------------------- */

enum { PACKS = 64 };
static ex_bytes packs[PACKS];
static uint8_t *lefts[PACKS + 1]; /* kept, since records lie in them */
static size_t lefts_count;

static void drop_outputs(void) {
    free(op.outputs[0]);
    free(op.outputs[1]);
    op.outputs[0] = op.outputs[1] = NULL;
}

/* Reads the batches that were cut, and lets go of the cuts. False: one of them failed. */
static bool read_batches(int64_t *cuts, int64_t batches, int64_t size, int64_t left_records) {
    bool good = true;
    for (int64_t i = 0; i < batches && good; i++) {
        op.numbers = cuts + 4 * i;
        op.count = 4;
        announced = (size_t)(op.numbers[3] + (op.numbers[0] ? left_records : 0));
        HOLD(size == 0 || announced == (size_t)size);
        op_read_pack(NULL, NULL);
        good = op.why.code == TF_OK;
        HOLD(good || op.why.code == TF_INVALID_ARGUMENT);
    }
    free(cuts);
    return good;
}

/* One step of the scan, and the batches that it finds. */
static bool step(ex_bytes pack, const int64_t *sizes) {
    uint64_t left_records = 0;
    op.pack = pack;
    op.numbers = sizes;
    op.count = 2;
    op_cut_pack(NULL, NULL);
    if (op.why.code != TF_OK) {
        drop_outputs();
        return false;
    }
    HOLD(op.outputs[0] != NULL && op.outputs[1] != NULL && op_pack_records(op.left, &left_records));
    ex_bytes later = {op.outputs[0], (size_t)op.sizes[0]};
    int64_t *cuts = op.outputs[1];
    op.outputs[0] = op.outputs[1] = NULL;
    lefts[lefts_count++] = (uint8_t *)later.data;
    bool good =
        read_batches(cuts, op.sizes[1], pack.size > 0 ? sizes[0] : 0, (int64_t)left_records);
    op.left = later;
    return good;
}

/* Every record that came is the next of those that the packs hold. */
PLAIN static void check_order(size_t count) {
    size_t k = 0;
    for (size_t p = 0; p < count; p++) {
        op_segment each;
        for (size_t at = 0; op_segment_at(packs[p], &at, &each);)
            for (size_t frame = 0; k < records && frame < each.frames.size; k++) {
                size_t length = (size_t)load64(each.frames.data + frame);
                HOLD(met[k].size == length);
                HOLD(!memcmp(met[k].data, each.frames.data + frame + TFRECORD_HEADER, length));
                frame += length + TFRECORD_OVERHEAD;
            }
    }
    HOLD(k == records);
}

static size_t read_packs(const uint8_t *input, size_t left) {
    size_t count = 0;
    while (left >= 2 && count < PACKS) {
        size_t size = (size_t)(input[0] | input[1] << 8);
        input += 2, left -= 2;
        size = size < left ? size : left;
        uint8_t *copy = malloc(size + !size);
        memcpy(copy, input, size);
        if (size > 0)
            packs[count++] = (ex_bytes){copy, size};
        else
            free(copy);
        input += size, left -= size;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static const uint8_t nothing[1];
    if (size < 3 || size > (size_t)TFRECORD_OVERHEAD * MOST) return 0;
    const int64_t sizes[2] = {1 + input[0] % 16, 1 + input[1] % 16};
    op.bad = input[2] & 1 ? input[2] >> 1 : SIZE_MAX;
    op.left = (ex_bytes){nothing, 0};
    records = lefts_count = 0;
    const size_t count = read_packs(input + 3, size - 3);
    bool good = true;
    for (size_t i = 0; i < count && good; i++) good = step(packs[i], sizes);
    if (good && step((ex_bytes){nothing, 0}, sizes)) {
        HOLD(op.left.size == 0);
        HOLD(!step((ex_bytes){nothing, 0}, sizes) && op.why.code == TF_OUT_OF_RANGE);
    }
    check_order(count);
    for (size_t i = 0; i < count; i++) free((void *)packs[i].data);
    for (size_t i = 0; i < lefts_count; i++) free(lefts[i]);
    return 0;
}
