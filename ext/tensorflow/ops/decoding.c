#include "tensorflow/ops/decoding.h"

bool decoding_fail(batch_decoding *all, size_t k, size_t start, size_t row, ex_status status) {
    *all->fault = (decode_fault){.record = start + row,
                                 .column = &all->wanted->all[k],
                                 .key = all->wanted->keys[k],
                                 .feature = tile_column(&all->tiles, start, k)[row],
                                 .status = status};
    return false;
}
