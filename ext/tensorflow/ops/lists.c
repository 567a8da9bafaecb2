#include "tensorflow/ops/lists.h"

#include <inttypes.h>
#include <string.h>

#include "tensorflow/ops/values.h"

bool count_lists(batch_decoding *all, size_t k, size_t start) {
    const wanted_column *each = &all->wanted->all[k];
    ex_column source = {.slots = tile_column(&all->tiles, start, k),
                        .records = tile_count(&all->tiles, start)};
    int64_t *counts = all->counts[k] + start;
    size_t row = 0;
    ex_status status = ex_count_column(&source, each->kind, counts, &row);
    for (size_t i = 0; status == EX_OK && each->layout == COLUMN_PADDED && i < source.records; i++)
        if ((size_t)counts[i] % each->width != 0) {
            status = EX_COUNT;
            row = i;
        }
    return status == EX_OK || decoding_fail(all, k, start, row, status);
}

/* --- one after the other: ragged and sparse ----------------------------------------------------- */

static bool read_flat(batch_decoding *all, size_t k) {
    const wanted_column *each = &all->wanted->all[k];
    const int64_t *splits = all->counts[k];
    int64_t total = splits[all->tiles.count];
    void *to =
        output_tensor(all->now, each->output + column_values(each->layout), each->type, &total, 1);
    for (size_t start = 0; to != NULL && start < all->tiles.count; start += TILE) {
        ex_column source = {.slots = tile_column(&all->tiles, start, k),
                            .records = tile_count(&all->tiles, start),
                            .splits = splits + start};
        size_t row = 0;
        ex_status status =
            read_values(&source, each->kind, to, &all->scratch, &row, &all->now->why);
        if (status != EX_OK) return decoding_fail(all, k, start, row, status);
        if (all->now->why.code != TF_OK) return false;
    }
    return to != NULL;
}

static bool put_splits(batch_decoding *all, const wanted_column *each, const int64_t *splits) {
    int64_t n = (int64_t)all->tiles.count + 1;
    bool narrow = each->layout == COLUMN_RAGGED32;
    if (narrow && splits[n - 1] > INT32_MAX)
        return fail(&all->now->why, TF_INVALID_ARGUMENT,
                    "%" PRId64 " values are too many for int32 row_splits: ask for "
                    "row_splits_dtype=tf.int64, or for smaller batches",
                    splits[n - 1]);
    void *to = output_tensor(all->now, each->output + 1, narrow ? TF_INT32 : TF_INT64, &n, 1);
    if (to == NULL) return false;
    if (!narrow) memcpy(to, splits, (size_t)n * sizeof *splits);
    for (int64_t i = 0; narrow && i < n; i++) ((int32_t *)to)[i] = (int32_t)splits[i];
    return true;
}

static bool put_indices(batch_decoding *all, const wanted_column *each, const int64_t *splits,
                        int64_t most) {
    int64_t records = (int64_t)all->tiles.count;
    const int64_t dims[2] = {splits[records], 2}, two = 2;
    int64_t *at = output_tensor(all->now, each->output, TF_INT64, dims, 2);
    int64_t *shape =
        at != NULL ? output_tensor(all->now, each->output + 2, TF_INT64, &two, 1) : NULL;
    if (shape == NULL) return false;
    for (int64_t i = 0; i < records; i++)
        for (int64_t j = splits[i]; j < splits[i + 1]; j++) {
            *at++ = i;
            *at++ = j - splits[i];
        }
    shape[0] = records;
    shape[1] = most;
    return true;
}

/* --- filled up: padded -------------------------------------------------------------------------- */

static void fill(const wanted_column *each, char *to, size_t count) {
    size_t size = type_size(each->type);
    const ex_bytes *text = each->fallback;
    for (size_t i = 0; i < count; i++, to += size) {
        if (each->kind == EX_BYTES)
            tf.StringCopy((TF_TString *)(void *)to, (const char *)text->data, text->size);
        else
            memcpy(to, each->fallback, size);
    }
}

static bool read_padded_row(batch_decoding *all, size_t k, size_t record, char *to, size_t room) {
    const wanted_column *each = &all->wanted->all[k];
    size_t start = record / TILE * TILE, row = 0;
    size_t count = (size_t)all->counts[k][record];
    const int64_t splits[2] = {0, (int64_t)count};
    ex_column source = {.slots = tile_column(&all->tiles, start, k) + (record - start),
                        .records = 1,
                        .splits = splits};
    ex_status status = read_values(&source, each->kind, to, &all->scratch, &row, &all->now->why);
    if (status != EX_OK) return decoding_fail(all, k, start, record - start, status);
    fill(each, to + count * type_size(each->type), room - count);
    return all->now->why.code == TF_OK;
}

static bool read_padded(batch_decoding *all, size_t k) {
    const wanted_column *each = &all->wanted->all[k];
    int64_t dims[MAX_RANK + 2] = {(int64_t)all->tiles.count};
    int64_t most = 0;
    for (size_t i = 0; i < all->tiles.count; i++)
        most = all->counts[k][i] > most ? all->counts[k][i] : most;
    dims[1] = most / (int64_t)each->width;
    memcpy(dims + 2, each->dims, (size_t)each->rank * sizeof *dims);
    char *to = output_tensor(all->now, each->output, each->type, dims, each->rank + 2);
    size_t row_bytes = (size_t)most * type_size(each->type);
    for (size_t i = 0; to != NULL && i < all->tiles.count; i++)
        if (!read_padded_row(all, k, i, to + i * row_bytes, (size_t)most)) return false;
    return to != NULL;
}

/* ------------------------------------------------------------------------------------------------ */

bool read_lists(batch_decoding *all, size_t k) {
    const wanted_column *each = &all->wanted->all[k];
    int64_t most = 0;
    if (each->layout == COLUMN_PADDED) return read_padded(all, k);
    decoding_splits(all->counts[k], all->tiles.count, &most);
    if (!read_flat(all, k)) return false;
    if (each->layout == COLUMN_SPARSE) return put_indices(all, each, all->counts[k], most);
    return put_splits(all, each, all->counts[k]);
}
