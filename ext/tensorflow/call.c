#include "tensorflow/call.h"

#include <inttypes.h>
#include <stdio.h>
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

bool input_rows(kernel_call *now, int input, int64_t columns, const int64_t **rows, int64_t *n) {
    const TF_Tensor *tensor = now->inputs[input];
    int dims = tf.NumDims(tensor);
    bool right = columns == 1 ? dims <= 1 : dims == 2 && tf.Dim(tensor, 1) == columns;
    if (!right)
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d does not have %" PRId64 " columns",
                    input, columns);
    *n = dims == 0 ? 1 : tf.Dim(tensor, 0);
    *rows = tf.TensorData(tensor);
    return true;
}

bool input_numbers(kernel_call *now, int input, int64_t count, const int64_t **numbers) {
    int64_t n = 0;
    return input_rows(now, input, 1, numbers, &n) &&
           (n == count || fail(&now->why, TF_INVALID_ARGUMENT,
                               "input %d is not %" PRId64 " numbers", input, count));
}

bool input_bytes(kernel_call *now, int input, ex_bytes *bytes) {
    const TF_Tensor *tensor = now->inputs[input];
    if (tf.NumDims(tensor) != 1)
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d is no vector", input);
    *bytes = (ex_bytes){tf.TensorData(tensor), (size_t)tf.Dim(tensor, 0)};
    return true;
}

int64_t input_count(const kernel_call *now, int input) {
    const TF_Tensor *tensor = now->inputs[input];
    return tf.NumDims(tensor) == 0 ? 1 : tf.Dim(tensor, 0);
}

bool input_text(kernel_call *now, int input, int64_t index, char *text, size_t size) {
    const TF_Tensor *tensor = now->inputs[input];
    if (index < 0 || index >= input_count(now, input))
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d has no element %" PRId64, input,
                    index);
    const TF_TString *string = (const TF_TString *)tf.TensorData(tensor) + index;
    size_t length = tf.StringGetSize(string);
    if (length >= size)
        return fail(&now->why, TF_INVALID_ARGUMENT, "a name of %zu bytes is too long", length);
    memcpy(text, tf.StringGetDataPointer(string), length);
    text[length] = '\0';
    return true;
}

size_t type_size(TF_DataType type) {
    if (type == TF_STRING) return sizeof(TF_TString);
    if (type == TF_UINT8 || type == TF_BOOL) return sizeof(uint8_t);
    return type == TF_INT64 ? sizeof(int64_t) : sizeof(int32_t);
}

void *output_tensor(kernel_call *now, int index, TF_DataType type, const int64_t *dims, int rank) {
    static char nothing[sizeof(TF_TString)];
    size_t nbytes = type_size(type);
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
