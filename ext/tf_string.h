/* A string tensor's element whose memory is filled by somebody else.
 *
 * The C API only copies into strings. A long one is three words: its size shifted left by two, with 1
 * in the low bits; its capacity; its memory, of malloc, with a NUL behind the data
 * (tsl/platform/ctstring_internal.h). `tf_string_probe` looks whether this TensorFlow agrees.
 */
#ifndef TFIO_STORE_TF_STRING_H
#define TFIO_STORE_TF_STRING_H

#include <stdbool.h>

#include "tf_abi.h"

/* Shorter ones are copied: a second copy from the CPU's cache costs less than what it saves. */
#define TF_STRING_LONG ((size_t)64 << 10)

/* Whether `tf_string_take` may be used. Needs tf_abi_load. */
bool tf_string_probe(void);

/* Memory for `size` bytes (at least TF_STRING_LONG), now a string's; NULL when out of memory. The string
 * must be an empty one of a fresh tensor. */
void *tf_string_take(TF_TString *string, size_t size);

#endif
