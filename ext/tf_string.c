#include "tf_string.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 1, TYPE_BITS = 2, ALIGNMENT = 16 };

typedef struct {
    uint64_t size;
    uint64_t capacity;
    char *data;
} large_string;

_Static_assert(sizeof(large_string) == sizeof(TF_TString), "a string has three words");

static size_t capacity_for(size_t size) {
    return (size + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - 1;
}

bool tf_string_probe(void) {
    static const char text[] = "a string that is too long to be kept within three words";
    TF_TString string;
    large_string seen;
    tf.StringInit(&string);
    tf.StringCopy(&string, text, sizeof text);
    memcpy(&seen, &string, sizeof seen);
    bool same = seen.size == (sizeof text << TYPE_BITS | LARGE) &&
                seen.capacity == capacity_for(sizeof text) &&
                seen.data == tf.StringGetDataPointer(&string) &&
                memcmp(seen.data, text, sizeof text) == 0;
    tf.StringDealloc(&string);
    return same;
}

void *tf_string_take(TF_TString *string, size_t size) {
    large_string taken = {.size = (uint64_t)size << TYPE_BITS | LARGE,
                          .capacity = capacity_for(size)};
    taken.data = malloc(taken.capacity + 1);
    if (taken.data == NULL)
        return NULL;
    taken.data[size] = 0;
    memcpy(string, &taken, sizeof taken);
    return taken.data;
}
