/* What stands in for TensorFlow's tensors, where the C of the ops takes them. `stand_in.h` comes first.
 */
struct TF_Tensor {
    TF_DataType type;
    int dims;
    int64_t dim[2];
    const void *data;
};

static TF_DataType tensor_type(const TF_Tensor *tensor) { return tensor->type; }

static void *tensor_data(const TF_Tensor *tensor) { return (void *)tensor->data; }

static int tensor_dims(const TF_Tensor *tensor) { return tensor->dims; }

static int64_t tensor_dim(const TF_Tensor *tensor, int index) { return tensor->dim[index]; }

static const char *string_data(const TF_TString *string) {
    return (const char *)(uintptr_t)string->opaque[0];
}

static size_t string_size(const TF_TString *string) { return strlen(string_data(string)); }

static void use_tensors(void) {
    tf.TensorData = tensor_data;
    tf.TensorType = tensor_type;
    tf.NumDims = tensor_dims;
    tf.Dim = tensor_dim;
    tf.StringGetDataPointer = string_data;
    tf.StringGetSize = string_size;
}
