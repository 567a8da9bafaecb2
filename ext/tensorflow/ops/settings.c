#include "tensorflow/ops/settings.h"

#include <stdlib.h>

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
