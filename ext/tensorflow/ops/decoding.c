#include "tensorflow/ops/decoding.h"

bool decoding_fail(batch_decoding *all, size_t k, size_t start, size_t row, ex_status status) {
    *all->fault = (decode_fault){.record = start + row,
                                 .column = &all->wanted->all[k],
                                 .key = all->wanted->keys[k],
                                 .feature = tile_column(&all->tiles, start, k)[row],
                                 .status = status};
    return false;
}

bool decoding_fits(const wanted_column *each, size_t rows, size_t nbytes) {
    size_t least = each->kind == EX_FLOAT ? 4 : each->kind == EX_BYTES ? 2 : 1, wanted = 0;
    return !__builtin_mul_overflow(each->width, rows, &wanted) &&
           !__builtin_mul_overflow(wanted, least, &wanted) && wanted <= nbytes;
}

int64_t decoding_splits(int64_t *counts, size_t rows, int64_t *most) {
    int64_t total = 0;
    *most = 0;
    for (size_t i = 0; i < rows; i++) {
        int64_t count = counts[i];
        *most = count > *most ? count : *most;
        counts[i] = total;
        total += count;
    }
    counts[rows] = total;
    return total;
}
