#include "tensorflow/ops/fault.h"

static const char *const KINDS[] = {"no", "bytes", "float", "int64"};

bool decode_fail(const decode_fault *fault, const char *place, failure *why) {
    if (fault->status == EX_OK) return false;
    int size = (int)(fault->key.size < 512 ? fault->key.size : 512);
    const char *name = (const char *)fault->key.data;
    ex_kind found = EX_NO_KIND;
    size_t count = 0;
    if (fault->column == NULL)
        return fail(why, TF_INVALID_ARGUMENT, "%s is not a tf.train.Example: %s", place,
                    ex_reason(fault->status));
    if (fault->status == EX_MISSING)
        return fail(
            why, TF_INVALID_ARGUMENT,
            "%s: feature '%.*s' (%s) is required and is missing: give it a default, or take "
            "a feature that may be missing",
            place, size, name, KINDS[fault->column->kind]);
    if (fault->status == EX_KIND) {
        ex_kind_of(fault->feature, &found);
        return fail(why, TF_INVALID_ARGUMENT, "%s: feature '%.*s' holds %s values, not %s ones",
                    place, size, name, KINDS[found], KINDS[fault->column->kind]);
    }
    if (fault->status == EX_COUNT) {
        ex_count(fault->feature, fault->column->kind, &count);
        return fail(why, TF_INVALID_ARGUMENT, "%s: feature '%.*s' holds %zu values, not %s%zu",
                    place, size, name, count,
                    fault->column->layout == COLUMN_PADDED ? "a multiple of " : "",
                    fault->column->width);
    }
    return fail(why, TF_INVALID_ARGUMENT, "%s: feature '%.*s' can't be read: %s", place, size, name,
                ex_reason(fault->status));
}
