/* An element of a string tensor that points at bytes which the tensor keeps.
 *
 * The C API only copies into strings. A long one is three words: its size shifted left by two, with 1
 * in the low bits; its capacity; its bytes, with a NUL behind them (tsl/platform/ctstring_internal.h).
 * `tf_string_probe` looks whether this TensorFlow agrees.
 *
 * Whoever copies such a string copies its bytes; nobody frees or grows it, since TensorFlow does that
 * only in tensors that own their memory, and those made by TF_NewTensor do not.
 */
#ifndef TFIO_STORE_TF_STRING_H
#define TFIO_STORE_TF_STRING_H

#include <stdbool.h>

#include "tf_abi.h"

/* NULL if `tf_string_point` may be used, or what is different. Needs tf_abi_load. */
const char *tf_string_probe(void);

/* Has the string be `size` bytes that live as long as its tensor. The byte behind them becomes 0. */
void tf_string_point(TF_TString *string, char *bytes, size_t size);

#endif
