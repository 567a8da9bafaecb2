/* Columns of feature lists: each record has as many steps as it likes. */
#ifndef TFIO_STORE_TF_STEPS_H
#define TFIO_STORE_TF_STEPS_H

#include "tensorflow/ops/decoding.h"

/* Counts the steps of column k in a tile. */
bool count_steps(batch_decoding *all, size_t k, size_t start);

/* Makes the outputs of column k, of which all is counted. */
bool read_steps(batch_decoding *all, size_t k);

#endif
