#include "tensorflow/ops/values.h"

/* Strings are found first and copied then: so many at a time. */
#ifndef STRINGS /* fuzzing builds this with a small one */
#define STRINGS ((size_t)1024)
#endif

static bool reserve(chunk *scratch, size_t strings, failure *why) {
    size_t nbytes = strings * sizeof(ex_bytes);
    if (scratch->memory != NULL && scratch->size >= nbytes) return true;
    chunk_release(scratch);
    return chunk_take(scratch, nbytes, why);
}

/* One or more records; `room` is what they hold together. */
static ex_status read_strings(const ex_column *some, size_t room, TF_TString *to, chunk *scratch,
                              size_t *failed, failure *why) {
    if (!reserve(scratch, room, why)) return EX_OK;
    ex_bytes *found = scratch->memory;
    ex_status status = ex_read_bytes(some, found, failed);
    if (status == EX_OK) strings_copy(found, room, to);
    return status;
}

/* Rows of the same width: as many at a time as fill the scratch. */
static ex_status read_rows(const ex_column *source, TF_TString *to, chunk *scratch, size_t *failed,
                           failure *why) {
    size_t step = source->width > 0 && source->width < STRINGS ? STRINGS / source->width : 1;
    if (source->width == 0) step = source->records;
    for (size_t i = 0; i < source->records && why->code == TF_OK; i += step) {
        ex_column some = *source;
        some.slots += i;
        some.records = source->records - i < step ? source->records - i : step;
        ex_status status = read_strings(&some, some.records * source->width, to + i * source->width,
                                        scratch, failed, why);
        if (status != EX_OK) {
            *failed += i;
            return status;
        }
    }
    return EX_OK;
}

/* Rows of their own lengths, one by one: what they hold together has no bound. */
static ex_status read_each(const ex_column *source, TF_TString *to, chunk *scratch, size_t *failed,
                           failure *why) {
    for (size_t i = 0; i < source->records && why->code == TF_OK; i++) {
        size_t count = (size_t)(source->splits[i + 1] - source->splits[i]);
        int64_t splits[2] = {0, (int64_t)count};
        ex_column one = {.slots = source->slots + i, .records = 1, .splits = splits};
        ex_status status = read_strings(&one, count, to + source->splits[i], scratch, failed, why);
        if (status != EX_OK) {
            *failed = i;
            return status;
        }
    }
    return EX_OK;
}

ex_status read_values(const ex_column *source, ex_kind kind, void *to, chunk *scratch,
                      size_t *failed, failure *why) {
    if (kind == EX_FLOAT) return ex_read_floats(source, to, failed);
    if (kind == EX_INT64) return ex_read_int64s(source, to, failed);
    return source->splits != NULL ? read_each(source, to, scratch, failed, why)
                                  : read_rows(source, to, scratch, failed, why);
}
