/* Any columns and any records into the decoder of TensorFlow's op: whatever the attribute and the
 * records say, all outputs are whole and fit together, or the failure has a text.
 *
 * The input is a uint8 count of records, a uint16 size of the attribute `columns` and the attribute,
 * then each record behind its uint16 size. Tensors are stand-ins: memory of exactly their size. The
 * build makes tiles so small that a few records fill several.
 */
#include <string.h>

#include "oracle.h"
#include "tensorflow/ops/op_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { OUTPUTS = 1 << 12, RECORDS = 255 };
static const size_t ROOM = (size_t)64 << 20; /* in which all tensors together must fit */

struct tf_abi tf;

/* --- tensors ------------------------------------------------------------------------------------ */

struct TF_Tensor {
    TF_DataType type;
    int64_t dims[MAX_RANK + 2];
    int rank;
    void *data;
};

static TF_Tensor tensors[OUTPUTS];
static int outputs; /* that were asked for */
static size_t taken;
static TF_Code code;

static TF_Code get_code(const TF_Status *status) {
    (void)status;
    return code;
}

static const char *get_message(const TF_Status *status) {
    (void)status;
    return "out of memory";
}

static TF_Tensor *allocate(TF_OpKernelContext *context, int index, TF_DataType type,
                           const int64_t *dims, int rank, size_t nbytes, TF_Status *status) {
    (void)context, (void)status;
    HOLD(index >= 0 && index < OUTPUTS && rank <= MAX_RANK + 2);
    TF_Tensor *made = &tensors[index];
    size_t expected = op_type_size(type);
    for (int i = 0; i < rank; i++) expected *= (size_t)dims[i];
    HOLD(made->data == NULL && nbytes == expected);
    taken += nbytes;
    if (taken > ROOM) {
        code = TF_RESOURCE_EXHAUSTED;
        return NULL;
    }
    *made = (TF_Tensor){.type = type, .rank = rank, .data = calloc(1, nbytes > 0 ? nbytes : 1)};
    if (rank > 0) memcpy(made->dims, dims, (size_t)rank * sizeof *dims);
    outputs = index >= outputs ? index + 1 : outputs;
    return made;
}

/* The op was declared as the columns want it, or with one output of another type. */
static const op_columns *declared;
static int wrong;

static TF_DataType expected_type(const op_columns *of, int index) {
    for (size_t k = 0; k < of->count; k++) {
        const op_column *each = &of->all[k];
        const int at = index - each->output;
        if (at < 0 || at >= op_layout_outputs(each->layout)) continue;
        if (at == op_layout_values(each->layout)) return each->type;
        return each->layout == COLUMN_RAGGED32 ? TF_INT32 : TF_INT64;
    }
    return TF_BOOL;
}

static TF_DataType output_type(TF_OpKernelContext *context, int index) {
    (void)context;
    return index == wrong ? TF_BOOL : expected_type(declared, index);
}

static int output_count(TF_OpKernelContext *context) {
    (void)context;
    return declared->outputs;
}

static void *tensor_data(const TF_Tensor *tensor) { return tensor->data; }
static void delete_handle(TF_Tensor *tensor) { (void)tensor; }

/* Reads every byte, so that the sanitizer sees one that is not the input's, and notes the size. */
static void copy_string(TF_TString *string, const char *data, size_t size) {
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++) sum += (unsigned char)data[i];
    *string = (TF_TString){{size, sum, 1}};
}

static void delete_tensors(void) {
    for (int i = 0; i < outputs; i++) free(tensors[i].data);
    memset(tensors, 0, (size_t)outputs * sizeof *tensors);
    outputs = 0;
    taken = 0;
    code = TF_OK;
}

/* --- what must hold ----------------------------------------------------------------------------- */

static int64_t values_of(const TF_Tensor *tensor) {
    int64_t values = 1;
    for (int i = 0; i < tensor->rank; i++) values *= tensor->dims[i];
    return values;
}

static int64_t split(const TF_Tensor *splits, int64_t i) {
    return splits->type == TF_INT32 ? ((const int32_t *)splits->data)[i]
                                    : ((const int64_t *)splits->data)[i];
}

static void check_splits(const TF_Tensor *values, const TF_Tensor *splits, int64_t records) {
    HOLD(splits->rank == 1 && splits->dims[0] == records + 1 && split(splits, 0) == 0);
    for (int64_t i = 0; i < records; i++) HOLD(split(splits, i) <= split(splits, i + 1));
    HOLD(values->rank == 1 && split(splits, records) == values->dims[0]);
}

static void check_sparse(const TF_Tensor *tensor, int64_t records) {
    const int64_t *at = tensor[0].data, *shape = tensor[2].data;
    int64_t count = tensor[1].dims[0];
    HOLD(tensor[0].rank == 2 && tensor[0].dims[0] == count && tensor[0].dims[1] == 2);
    HOLD(tensor[2].dims[0] == 2 && shape[0] == records);
    for (int64_t i = 0; i < count; i++, at += 2)
        HOLD(0 <= at[0] && at[0] < records && 0 <= at[1] && at[1] < shape[1]);
}

/* Values, splits of steps, and splits of records; or without those of steps. */
static void check_steps(const TF_Tensor *tensor, op_layout layout, int64_t records) {
    const TF_Tensor *outer = &tensor[op_layout_outputs(layout) - 1];
    int64_t steps = layout == COLUMN_ROWS ? tensor[1].dims[0] - 1 : tensor[0].dims[0];
    if (layout == COLUMN_ROWS) check_splits(tensor, tensor + 1, steps);
    HOLD(outer->rank == 1 && outer->dims[0] == records + 1 && split(outer, 0) == 0);
    for (int64_t i = 0; i < records; i++) HOLD(split(outer, i) <= split(outer, i + 1));
    HOLD(split(outer, records) == steps);
}

static void check_column(const op_column *each, int64_t records) {
    const TF_Tensor *first = &tensors[each->output];
    const TF_Tensor *values = first + op_layout_values(each->layout);
    for (int i = 0; i < op_layout_outputs(each->layout); i++) HOLD(first[i].data != NULL);
    HOLD(values->type == each->type);
    for (int64_t i = 0; each->type == TF_STRING && i < values_of(values); i++)
        HOLD(((const TF_TString *)values->data)[i].opaque[2] == 1);
    if (op_layout_has_steps(each->layout))
        check_steps(first, each->layout, records);
    else if (each->layout == COLUMN_SPARSE)
        check_sparse(first, records);
    else if (each->layout == COLUMN_RAGGED || each->layout == COLUMN_RAGGED32)
        check_splits(values, first + 1, records);
    else
        HOLD(values->dims[0] == records);
}

/* --- one input ---------------------------------------------------------------------------------- */

/* Bytes of the input in memory of their own, and what is left of it. */
static uint8_t *cut(const uint8_t **input, size_t *left, size_t size) {
    size_t given = size < *left ? size : *left;
    uint8_t *copy = malloc(given > 0 ? given : 1);
    memcpy(copy, *input, given);
    *input += given;
    *left -= given;
    return copy;
}

static size_t cut_size(const uint8_t **input, size_t *left) {
    uint8_t *bytes = cut(input, left, 2);
    size_t size = *left > 0 ? (size_t)(bytes[0] | bytes[1] << 8) : 0;
    free(bytes);
    return size < *left ? size : *left;
}

static void decode(const op_columns *wanted, const ex_bytes *records, size_t count) {
    op_call call = {0};
    op_fault fault;
    declared = wanted;
    bool good = op_decode(&call, wanted, records, count, &fault);
    if (good) {
        HOLD(wrong < 0 || wrong >= wanted->outputs);
        for (size_t k = 0; k < wanted->count; k++) check_column(&wanted->all[k], (int64_t)count);
        return;
    }
    if (fault.status != EX_OK) {
        HOLD(fault.record < count);
        op_fault_fail(&fault, "the record", &call.why);
    }
    HOLD(call.why.code != TF_OK && call.why.message[0] != '\0');
    bool refused = strstr(call.why.message, "would be too large") != NULL; /* whatever it holds */
    HOLD(call.why.code != TF_RESOURCE_EXHAUSTED || taken > ROOM || refused);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ex_bytes records[RECORDS];
    op_columns wanted;
    failure why = {TF_OK, ""};
    tf.GetCode = get_code;
    tf.Message = get_message;
    tf.AllocateOutput = allocate;
    tf.NumOutputs = output_count;
    tf.ExpectedOutputDataType = output_type;
    tf.TensorData = tensor_data;
    tf.DeleteTensor = delete_handle;
    tf.StringCopy = copy_string;
    if (size == 0) return 0;
    wrong = size % 8 == 0 ? (int)(size / 8 % 4) : -1;
    size_t count = *input++, text = (size--, cut_size(&input, &size));
    char *attribute = (char *)cut(&input, &size, text);
    for (size_t i = 0; i < count; i++) {
        records[i].size = cut_size(&input, &size);
        records[i].data = cut(&input, &size, records[i].size);
    }
    if (!op_columns_parse(&wanted, attribute, text, &why))
        HOLD(why.code != TF_OK);
    else if (wanted.outputs <= OUTPUTS)
        decode(&wanted, records, count);
    op_columns_release(&wanted);
    for (size_t i = 0; i < count; i++) free((void *)records[i].data);
    delete_tensors();
    return 0;
}
