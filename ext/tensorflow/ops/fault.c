#include "tensorflow/ops/fault.h"

#include <stdio.h>

static const char *const KINDS[] = {"no", "bytes", "float", "int64"};

/* What the fault is in: "feature 'x'", and the step of a feature list. */
static void name_feature(const decode_fault *fault, char *name, size_t room) {
    int size = (int)(fault->key.size < 512 ? fault->key.size : 512);
    int used = snprintf(name, room, "feature '%.*s'", size, (const char *)fault->key.data);
    if (fault->in_step && used > 0 && (size_t)used < room)
        snprintf(name + used, room - (size_t)used, ", step %zu,", fault->step);
}

bool decode_fail(const decode_fault *fault, const char *place, failure *why) {
    if (fault->status == EX_OK) return false;
    ex_kind found = EX_NO_KIND;
    size_t count = 0;
    char name[600];
    if (fault->column == NULL)
        return fail(why, TF_INVALID_ARGUMENT, "%s is not a tf.train.%s: %s", place,
                    fault->sequence ? "SequenceExample" : "Example", ex_reason(fault->status));
    name_feature(fault, name, sizeof name);
    if (fault->status == EX_MISSING)
        return fail(why, TF_INVALID_ARGUMENT,
                    "%s: %s (%s) is required and is missing: give it a default, or take "
                    "a feature that may be missing",
                    place, name, KINDS[fault->column->kind]);
    if (fault->status == EX_KIND) {
        ex_kind_of(fault->feature, &found);
        return fail(why, TF_INVALID_ARGUMENT, "%s: %s holds %s values, not %s ones", place, name,
                    KINDS[found], KINDS[fault->column->kind]);
    }
    if (fault->status == EX_COUNT) {
        ex_count(fault->feature, fault->column->kind, &count);
        return fail(why, TF_INVALID_ARGUMENT, "%s: %s holds %zu values, not %s%zu", place, name,
                    count, fault->column->layout == COLUMN_PADDED ? "a multiple of " : "",
                    fault->column->width);
    }
    return fail(why, TF_INVALID_ARGUMENT, "%s: %s can't be read: %s", place, name,
                ex_reason(fault->status));
}
