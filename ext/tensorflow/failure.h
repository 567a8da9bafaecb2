/* Why something did not work. A TensorFlow status is made of it. */
#ifndef TFIO_STORE_TF_FAILURE_H
#define TFIO_STORE_TF_FAILURE_H

#include <stdbool.h>

#include "tensorflow/abi.h"

typedef struct {
    TF_Code code; /* TF_OK: nothing happened */
    char message[2048];
} failure;

/* Sets a failure, printf-like, and answers false. What is secret in URLs is left out. */
bool fail(failure *why, TF_Code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
