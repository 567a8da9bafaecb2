#define _GNU_SOURCE
#include "tensorflow/abi.h"

#include <dlfcn.h>
#include <string.h>

struct tf_abi tf;

#ifdef __APPLE__
static const char *const LIBRARIES[] = {"libtensorflow_framework.2.dylib",
                                        "libtensorflow_cc.2.dylib"};
#else
static const char *const LIBRARIES[] = {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"};
#endif
enum { LIBRARY_COUNT = sizeof LIBRARIES / sizeof LIBRARIES[0] };

/* RTLD_NOLOAD: never load a second copy of TensorFlow beside the one in use. */
static void *symbol(const char *name) {
    for (int i = 0; i < LIBRARY_COUNT; i++) {
        void *library = dlopen(LIBRARIES[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL) continue;
        void *found = dlsym(library, name);
        dlclose(library); /* drops the extra reference only */
        if (found != NULL) return found;
    }
    return NULL;
}

const char *tf_abi_load(void) {
    struct tf_abi loaded;
    void *found;
/* memcpy: ISO C has no conversion from an object pointer to a function pointer. */
#define TF_ABI_LOOK_UP(result, name, parameters)                                                   \
    found = symbol("TF_" #name);                                                                   \
    if (found == NULL) return "TF_" #name;                                                         \
    memcpy(&loaded.name, &found, sizeof found);
    TF_ABI_FUNCTIONS(TF_ABI_LOOK_UP)
#undef TF_ABI_LOOK_UP
    tf = loaded;
    return NULL;
}
