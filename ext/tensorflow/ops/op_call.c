#include "tensorflow/ops/op_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool check_status(op_call *call) {
    TF_Code code = tf.GetCode(call->status);
    return code == TF_OK || fail(&call->why, code, "%s", tf.Message(call->status));
}

bool op_call_begin(op_call *call, TF_OpKernelContext *context, int inputs) {
    call->context = context;
    call->status = tf.NewStatus();
    call->why.code = TF_OK; /* its message is large, and not cleared */
    memset(call->inputs, 0, sizeof call->inputs);
    for (int i = 0; i < inputs; i++) {
        tf.GetInput(context, i, &call->inputs[i], call->status);
        if (!check_status(call)) return false;
    }
    return true;
}

void op_call_end(op_call *call) {
    if (call->why.code != TF_OK) {
        tf.SetStatus(call->status, call->why.code, call->why.message);
        tf.OpKernelContext_Failure(call->context, call->status);
    }
    for (int i = 0; i < MAX_INPUTS; i++)
        if (call->inputs[i] != NULL) tf.DeleteTensor(call->inputs[i]);
    tf.DeleteStatus(call->status);
}

/* --- inputs ------------------------------------------------------------------------------------- */

/* Every input goes through here: `n` rows of `columns` elements of a type. Rows of one column are the
 * elements of a vector or scalar. */
static bool input_elements(op_call *call, int input, TF_DataType type, int64_t columns,
                           const void **elements, int64_t *n) {
    const TF_Tensor *tensor = call->inputs[input];
    const int rank = tf.NumDims(tensor);
    const TF_DataType found = tf.TensorType(tensor);
    if (found != type)
        return fail(&call->why, TF_INVALID_ARGUMENT, "input %d has elements of type %d, not %d",
                    input, (int)found, (int)type);
    if (columns == 1 && rank > 1)
        return fail(&call->why, TF_INVALID_ARGUMENT, "input %d has %d dimensions, not one at most",
                    input, rank);
    if (columns != 1 && (columns < 1 || rank != 2 || tf.Dim(tensor, 1) != columns))
        return fail(&call->why, TF_INVALID_ARGUMENT, "input %d does not have %" PRId64 " columns",
                    input, columns < 1 ? 1 : columns);
    *n = rank == 0 ? 1 : tf.Dim(tensor, 0);
    *elements = tf.TensorData(tensor);
    return true;
}

bool op_input_rows(op_call *call, int input, int64_t columns, const int64_t **rows, int64_t *n) {
    const void *elements = NULL;
    if (!input_elements(call, input, TF_INT64, columns, &elements, n)) return false;
    *rows = elements;
    return true;
}

bool op_input_numbers(op_call *call, int input, int64_t count, const int64_t **numbers) {
    int64_t n = 0;
    return op_input_rows(call, input, 1, numbers, &n) &&
           (n == count || fail(&call->why, TF_INVALID_ARGUMENT,
                               "input %d has %" PRId64 " numbers, not %" PRId64, input, n, count));
}

bool op_input_option(op_call *call, int input, const int64_t **number) {
    int64_t n = 0;
    if (!op_input_rows(call, input, 1, number, &n)) return false;
    if (n == 0) *number = NULL;
    return n <= 1 || fail(&call->why, TF_INVALID_ARGUMENT,
                          "input %d has %" PRId64 " numbers, not one at most", input, n);
}

bool op_input_bytes(op_call *call, int input, ex_bytes *bytes) {
    const void *elements = NULL;
    int64_t n = 0;
    if (!input_elements(call, input, TF_UINT8, 1, &elements, &n)) return false;
    *bytes = (ex_bytes){elements, (size_t)n};
    return true;
}

bool op_input_strings(op_call *call, int input, const TF_TString **strings, int64_t *n) {
    const void *elements = NULL;
    if (!input_elements(call, input, TF_STRING, 1, &elements, n)) return false;
    *strings = elements;
    return true;
}

bool op_input_text(op_call *call, int input, int64_t index, char *text, size_t size) {
    const TF_TString *strings = NULL;
    int64_t n = 0;
    if (!op_input_strings(call, input, &strings, &n)) return false;
    if (index < 0 || index >= n)
        return fail(&call->why, TF_INVALID_ARGUMENT, "input %d has no element %" PRId64, input,
                    index);
    const char *bytes = tf.StringGetDataPointer(&strings[index]);
    size_t length = tf.StringGetSize(&strings[index]);
    if (length >= size)
        return fail(&call->why, TF_INVALID_ARGUMENT, "a name of %zu bytes is too long", length);
    if (memchr(bytes, '\0', length) != NULL)
        return fail(&call->why, TF_INVALID_ARGUMENT, "a name has a NUL byte in it");
    memcpy(text, bytes, length);
    text[length] = '\0';
    return true;
}

int64_t op_input_columns(const op_call *call, int input) {
    const TF_Tensor *tensor = call->inputs[input];
    return tf.NumDims(tensor) == 2 ? tf.Dim(tensor, 1) : 1;
}

bool op_input_is_scalar(const op_call *call, int input) {
    return tf.NumDims(call->inputs[input]) == 0;
}

bool op_add_claim(op_call *call, int64_t *sum, int64_t more) {
    return !__builtin_add_overflow(*sum, more, sum) ||
           fail(&call->why, TF_INVALID_ARGUMENT, "the inputs claim more than 2^63 records");
}

/* --- outputs ------------------------------------------------------------------------------------ */

size_t op_type_size(TF_DataType type) {
    if (type == TF_STRING) return sizeof(TF_TString);
    if (type == TF_UINT8 || type == TF_BOOL) return sizeof(uint8_t);
    return type == TF_INT64 ? sizeof(int64_t) : sizeof(int32_t);
}

/* TensorFlow allocates what was declared, whatever type it is asked for. */
static bool check_declared(op_call *call, int index, TF_DataType type) {
    const int outputs = tf.NumOutputs(call->context);
    if (index >= outputs)
        return fail(&call->why, TF_INVALID_ARGUMENT, "there is an output %d, and %d are declared",
                    index, outputs);
    const TF_DataType declared = tf.ExpectedOutputDataType(call->context, index);
    return declared == type ||
           fail(&call->why, TF_INVALID_ARGUMENT, "output %d is of type %d, and declared as type %d",
                index, (int)type, (int)declared);
}

void *op_output_tensor(op_call *call, int index, TF_DataType type, const int64_t *dims, int rank) {
    static char nothing[sizeof(TF_TString)];
    size_t nbytes = op_type_size(type);
    if (!check_declared(call, index, type)) return NULL;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(nbytes, (size_t)dims[i], &nbytes) ||
            nbytes > PTRDIFF_MAX) {
            fail(&call->why, TF_RESOURCE_EXHAUSTED, "output %d would be too large", index);
            return NULL;
        }
    TF_Tensor *tensor =
        tf.AllocateOutput(call->context, index, type, dims, rank, nbytes, call->status);
    if (!check_status(call)) return NULL;
    void *data = tf.TensorData(tensor);
    tf.DeleteTensor(tensor); /* our handle; the context keeps the tensor */
    return nbytes > 0 ? data : nothing;
}

int64_t *op_output_numbers(op_call *call, int index, int64_t n) {
    return op_output_tensor(call, index, TF_INT64, &n, n < 0 ? 0 : 1);
}

bool op_output_text(op_call *call, int index, const char *text) {
    TF_TString *string = op_output_tensor(call, index, TF_STRING, NULL, 0);
    if (string == NULL) return false;
    tf.StringCopy(string, text, strlen(text));
    return true;
}

bool op_output_error(op_call *call, int index, const failure *why) {
    char text[sizeof why->message + 16] = "";
    if (why->code != TF_OK) snprintf(text, sizeof text, "%d:%s", (int)why->code, why->message);
    return op_output_text(call, index, text);
}

bool op_output_strings(op_call *call, int index, const ex_bytes *bytes, size_t count) {
    const int64_t n = (int64_t)count;
    TF_TString *strings = op_output_tensor(call, index, TF_STRING, &n, 1);
    if (strings == NULL) return false;
    op_strings_copy(bytes, count, strings);
    return true;
}

bool op_output_records(op_call *call, int index, const op_records *records) {
    return op_output_strings(call, index, op_records_all(records), op_records_count(records));
}

/* --- attributes ------------------------------------------------------------------------------- */

void *op_kernel_made(TF_OpKernelConstruction *context, TF_Status *status, void *kernel,
                     void (*destroy)(void *kernel)) {
    if (tf.GetCode(status) != TF_OK) {
        tf.OpKernelConstruction_Failure(context, status);
        destroy(kernel);
        kernel = NULL;
    }
    tf.DeleteStatus(status);
    return kernel;
}

void op_settings_delete(void *kernel) {
    op_settings *settings = kernel;
    if (settings != NULL) free(settings->options);
    free(settings);
}

char *op_text_attribute(TF_OpKernelConstruction *context, const char *name, size_t *length,
                        TF_Status *status) {
    int32_t list_size = 0, size = 0;
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrSize(context, name, &list_size, &size, status);
    if (tf.GetCode(status) != TF_OK) return NULL;
    *length = (size_t)size;
    char *text = calloc(1, (size_t)size + 1);
    if (text == NULL)
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    else
        tf.OpKernelConstruction_GetAttrString(context, name, text, (size_t)size, status);
    return text;
}

static bool flag_attribute(TF_OpKernelConstruction *context, const char *name, TF_Status *status) {
    unsigned char value = 0;
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrBool(context, name, &value, status);
    return value != 0;
}

uint64_t op_size_attribute(TF_OpKernelConstruction *context, const char *name, TF_Status *status) {
    int64_t value = 0;
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrInt64(context, name, &value, status);
    return value < 0 ? 0 : (uint64_t)value;
}

#define READ_FLAG(name, value) settings->name = flag_attribute(context, #name, status);
#define READ_NUMBER(name, value) settings->name = op_size_attribute(context, #name, status);

void *op_settings_new(TF_OpKernelConstruction *context) {
    TF_Status *status = tf.NewStatus();
    op_settings *settings = calloc(1, sizeof *settings);
    size_t length = 0;
    if (settings == NULL) {
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        settings->options = op_text_attribute(context, "options", &length, status);
        settings->partial = flag_attribute(context, "partial", status);
        READING_OPTIONS(READ_FLAG, READ_NUMBER)
    }
    return op_kernel_made(context, status, settings, op_settings_delete);
}
