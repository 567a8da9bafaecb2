/* How to reach and to treat the files of a dataset: the ops' attributes. */
#ifndef TFIO_STORE_TF_SETTINGS_H
#define TFIO_STORE_TF_SETTINGS_H

#include <stdbool.h>

#include "tensorflow/abi.h"

typedef struct {
    char *options; /* JSON: storage options and the like, for Python's eyes */
    bool verify;
    bool skip_corrupt;
    bool partial; /* good records before damage are handed out, and the damage beside them */
    uint64_t limit;
} read_settings;

#define SETTINGS_ATTRIBUTES                                                                        \
    "options: string = '{}'", "verify: bool = true", "skip_corrupt: bool = false",                 \
        "partial: bool = false", "max_record_bytes: int = 1073741824"

/* A kernel's state, as TF_NewKernelBuilder wants it; NULL and a failed construction if they make no
 * sense. */
void *settings_new(TF_OpKernelConstruction *context);
void settings_delete(void *settings);

/* An attribute, NULL or 0 where `status` is or becomes bad. The text is to be freed, and ends in a NUL
 * behind its `length`. */
char *text_attribute(TF_OpKernelConstruction *context, const char *name, size_t *length,
                     TF_Status *status);
uint64_t size_attribute(TF_OpKernelConstruction *context, const char *name, TF_Status *status);

#endif
