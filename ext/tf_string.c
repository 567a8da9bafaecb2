#include "tf_string.h"

#include <string.h>

enum { LARGE = 1, TYPE_BITS = 2 };

typedef struct {
    uint64_t size;
    uint64_t capacity;
    char *bytes;
} large_string;

_Static_assert(sizeof(large_string) == sizeof(TF_TString), "a string has three words");

void tf_string_point(TF_TString *string, char *bytes, size_t size) {
    large_string pointing = {
        .size = (uint64_t)size << TYPE_BITS | LARGE, .capacity = size, .bytes = bytes};
    bytes[size] = 0;
    memcpy(string, &pointing, sizeof pointing);
}

static bool layout_agrees(void) {
    static const char text[] = "a string that is too long to be kept within three words";
    TF_TString string;
    large_string seen;
    tf.StringInit(&string);
    tf.StringCopy(&string, text, sizeof text);
    memcpy(&seen, &string, sizeof seen);
    bool same = seen.size == (sizeof text << TYPE_BITS | LARGE) && seen.capacity >= sizeof text &&
                seen.bytes == tf.StringGetDataPointer(&string) &&
                memcmp(seen.bytes, text, sizeof text) == 0;
    tf.StringDealloc(&string);
    return same;
}

static bool pointing_works(void) {
    char bytes[] = "x.";
    TF_TString string;
    tf_string_point(&string, bytes, 1);
    return tf.StringGetSize(&string) == 1 && tf.StringGetDataPointer(&string) == bytes;
}

static void keep(void *data, size_t size, void *argument) {
    (void)data, (void)size, (void)argument;
}

/* TF_TensorMaybeMove answers a tensor if whoever holds it last may take it apart. */
static bool tensors_stay_whole(void) {
    static _Alignas(64) TF_TString none;
    tf.StringInit(&none);
    TF_Tensor *tensor = tf.NewTensor(TF_STRING, NULL, 0, &none, sizeof none, keep, NULL);
    if (tensor == NULL)
        return false;
    bool whole = tf.TensorMaybeMove(tensor) == NULL;
    tf.DeleteTensor(tensor);
    return whole;
}

const char *tf_string_probe(void) {
    if (!layout_agrees() || !pointing_works())
        return "its strings are laid out in another way";
    return tensors_stay_whole() ? NULL : "it takes tensors apart that it does not own";
}
