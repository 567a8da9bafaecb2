/* Values of one column, of any kind, to the memory of a tensor. */
#ifndef TFIO_STORE_TF_VALUES_H
#define TFIO_STORE_TF_VALUES_H

#include "tensorflow/call.h"
#include "tensorflow/ops/columns.h"

/* Reads what `source` says to `to`: float, int64_t or TF_TString. `scratch` is kept from call to call.
 * On failure *failed is the record; memory that can't be had is told by `why` alone. */
ex_status read_values(const ex_column *source, ex_kind kind, void *to, chunk *scratch,
                      size_t *failed, failure *why);

#endif
