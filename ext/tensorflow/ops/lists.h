/* Columns of which each record has as many values as it likes. */
#ifndef TFIO_STORE_TF_LISTS_H
#define TFIO_STORE_TF_LISTS_H

#include "tensorflow/ops/decoding.h"

/* Counts the values of column k in a tile. */
bool count_lists(batch_decoding *all, size_t k, size_t start);

/* Makes the outputs of column k, of which all is counted. */
bool read_lists(batch_decoding *all, size_t k);

#endif
