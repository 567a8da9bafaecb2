#include "tensorflow/ops/op_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool check_status(kernel_call *now) {
    TF_Code code = tf.GetCode(now->status);
    return code == TF_OK || fail(&now->why, code, "%s", tf.Message(now->status));
}

bool call_begin(kernel_call *now, TF_OpKernelContext *context, int inputs) {
    now->context = context;
    now->status = tf.NewStatus();
    now->why.code = TF_OK; /* its message is large, and not cleared */
    memset(now->inputs, 0, sizeof now->inputs);
    for (int i = 0; i < inputs; i++) {
        tf.GetInput(context, i, &now->inputs[i], now->status);
        if (!check_status(now)) return false;
    }
    return true;
}

void call_end(kernel_call *now) {
    if (now->why.code != TF_OK) {
        tf.SetStatus(now->status, now->why.code, now->why.message);
        tf.OpKernelContext_Failure(now->context, now->status);
    }
    for (int i = 0; i < MAX_INPUTS; i++)
        if (now->inputs[i] != NULL) tf.DeleteTensor(now->inputs[i]);
    tf.DeleteStatus(now->status);
}

/* --- inputs ------------------------------------------------------------------------------------- */

/* Every input goes through here: `n` rows of `columns` elements of a type. Rows of one column are the
 * elements of a vector or scalar. */
static bool input_elements(kernel_call *now, int input, TF_DataType type, int64_t columns,
                           const void **elements, int64_t *n) {
    const TF_Tensor *tensor = now->inputs[input];
    const int rank = tf.NumDims(tensor);
    const TF_DataType found = tf.TensorType(tensor);
    if (found != type)
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d has elements of type %d, not %d",
                    input, (int)found, (int)type);
    if (columns == 1 && rank > 1)
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d has %d dimensions, not one at most",
                    input, rank);
    if (columns != 1 && (columns < 1 || rank != 2 || tf.Dim(tensor, 1) != columns))
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d does not have %" PRId64 " columns",
                    input, columns < 1 ? 1 : columns);
    *n = rank == 0 ? 1 : tf.Dim(tensor, 0);
    *elements = tf.TensorData(tensor);
    return true;
}

bool input_rows(kernel_call *now, int input, int64_t columns, const int64_t **rows, int64_t *n) {
    const void *elements = NULL;
    if (!input_elements(now, input, TF_INT64, columns, &elements, n)) return false;
    *rows = elements;
    return true;
}

bool input_numbers(kernel_call *now, int input, int64_t count, const int64_t **numbers) {
    int64_t n = 0;
    return input_rows(now, input, 1, numbers, &n) &&
           (n == count || fail(&now->why, TF_INVALID_ARGUMENT,
                               "input %d has %" PRId64 " numbers, not %" PRId64, input, n, count));
}

bool input_option(kernel_call *now, int input, const int64_t **number) {
    int64_t n = 0;
    if (!input_rows(now, input, 1, number, &n)) return false;
    if (n == 0) *number = NULL;
    return n <= 1 || fail(&now->why, TF_INVALID_ARGUMENT,
                          "input %d has %" PRId64 " numbers, not one at most", input, n);
}

bool input_bytes(kernel_call *now, int input, ex_bytes *bytes) {
    const void *elements = NULL;
    int64_t n = 0;
    if (!input_elements(now, input, TF_UINT8, 1, &elements, &n)) return false;
    *bytes = (ex_bytes){elements, (size_t)n};
    return true;
}

bool input_strings(kernel_call *now, int input, const TF_TString **strings, int64_t *n) {
    const void *elements = NULL;
    if (!input_elements(now, input, TF_STRING, 1, &elements, n)) return false;
    *strings = elements;
    return true;
}

bool input_text(kernel_call *now, int input, int64_t index, char *text, size_t size) {
    const TF_TString *strings = NULL;
    int64_t n = 0;
    if (!input_strings(now, input, &strings, &n)) return false;
    if (index < 0 || index >= n)
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d has no element %" PRId64, input,
                    index);
    const char *bytes = tf.StringGetDataPointer(&strings[index]);
    size_t length = tf.StringGetSize(&strings[index]);
    if (length >= size)
        return fail(&now->why, TF_INVALID_ARGUMENT, "a name of %zu bytes is too long", length);
    if (memchr(bytes, '\0', length) != NULL)
        return fail(&now->why, TF_INVALID_ARGUMENT, "a name has a NUL byte in it");
    memcpy(text, bytes, length);
    text[length] = '\0';
    return true;
}

int64_t input_columns(const kernel_call *now, int input) {
    const TF_Tensor *tensor = now->inputs[input];
    return tf.NumDims(tensor) == 2 ? tf.Dim(tensor, 1) : 1;
}

bool input_is_scalar(const kernel_call *now, int input) {
    return tf.NumDims(now->inputs[input]) == 0;
}

bool add_claim(kernel_call *now, int64_t *sum, int64_t more) {
    return !__builtin_add_overflow(*sum, more, sum) ||
           fail(&now->why, TF_INVALID_ARGUMENT, "the inputs claim more than 2^63 records");
}

/* --- outputs ------------------------------------------------------------------------------------ */

size_t type_size(TF_DataType type) {
    if (type == TF_STRING) return sizeof(TF_TString);
    if (type == TF_UINT8 || type == TF_BOOL) return sizeof(uint8_t);
    return type == TF_INT64 ? sizeof(int64_t) : sizeof(int32_t);
}

/* TensorFlow allocates what was declared, whatever type it is asked for. */
static bool check_declared(kernel_call *now, int index, TF_DataType type) {
    const int outputs = tf.NumOutputs(now->context);
    if (index >= outputs)
        return fail(&now->why, TF_INVALID_ARGUMENT, "there is an output %d, and %d are declared",
                    index, outputs);
    const TF_DataType declared = tf.ExpectedOutputDataType(now->context, index);
    return declared == type ||
           fail(&now->why, TF_INVALID_ARGUMENT, "output %d is of type %d, and declared as type %d",
                index, (int)type, (int)declared);
}

void *output_tensor(kernel_call *now, int index, TF_DataType type, const int64_t *dims, int rank) {
    static char nothing[sizeof(TF_TString)];
    size_t nbytes = type_size(type);
    if (!check_declared(now, index, type)) return NULL;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(nbytes, (size_t)dims[i], &nbytes) ||
            nbytes > PTRDIFF_MAX) {
            fail(&now->why, TF_RESOURCE_EXHAUSTED, "output %d would be too large", index);
            return NULL;
        }
    TF_Tensor *tensor =
        tf.AllocateOutput(now->context, index, type, dims, rank, nbytes, now->status);
    if (!check_status(now)) return NULL;
    void *data = tf.TensorData(tensor);
    tf.DeleteTensor(tensor); /* our handle; the context keeps the tensor */
    return nbytes > 0 ? data : nothing;
}

int64_t *output_numbers(kernel_call *now, int index, int64_t n) {
    return output_tensor(now, index, TF_INT64, &n, n < 0 ? 0 : 1);
}

bool output_text(kernel_call *now, int index, const char *text) {
    TF_TString *string = output_tensor(now, index, TF_STRING, NULL, 0);
    if (string == NULL) return false;
    tf.StringCopy(string, text, strlen(text));
    return true;
}

bool output_error(kernel_call *now, int index, const failure *why) {
    char text[sizeof why->message + 16] = "";
    if (why->code != TF_OK) snprintf(text, sizeof text, "%d:%s", (int)why->code, why->message);
    return output_text(now, index, text);
}

bool output_strings(kernel_call *now, int index, const ex_bytes *bytes, size_t count) {
    const int64_t n = (int64_t)count;
    TF_TString *strings = output_tensor(now, index, TF_STRING, &n, 1);
    if (strings == NULL) return false;
    strings_copy(bytes, count, strings);
    return true;
}

bool output_records(kernel_call *now, int index, const record_list *records) {
    return output_strings(now, index, records_all(records), records_count(records));
}

/* --- attributes ------------------------------------------------------------------------------- */

void settings_delete(void *kernel) {
    read_settings *settings = kernel;
    if (settings != NULL) free(settings->options);
    free(settings);
}

char *text_attribute(TF_OpKernelConstruction *context, const char *name, size_t *length,
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

uint64_t size_attribute(TF_OpKernelConstruction *context, const char *name, TF_Status *status) {
    int64_t value = 0;
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrInt64(context, name, &value, status);
    return value < 0 ? 0 : (uint64_t)value;
}

void *settings_new(TF_OpKernelConstruction *context) {
    TF_Status *status = tf.NewStatus();
    read_settings *settings = calloc(1, sizeof *settings);
    size_t length = 0;
    if (settings == NULL) {
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        settings->options = text_attribute(context, "options", &length, status);
        settings->verify = flag_attribute(context, "verify", status);
        settings->skip_corrupt = flag_attribute(context, "skip_corrupt", status);
        settings->partial = flag_attribute(context, "partial", status);
        settings->limit = size_attribute(context, "max_record_bytes", status);
    }
    if (tf.GetCode(status) != TF_OK) {
        tf.OpKernelConstruction_Failure(context, status);
        settings_delete(settings);
        settings = NULL;
    }
    tf.DeleteStatus(status);
    return settings;
}
