/* What keeps an Example from being decoded, and how that is told. */
#ifndef TFIO_STORE_TF_FAULT_H
#define TFIO_STORE_TF_FAULT_H

#include "tensorflow/call.h"
#include "tensorflow/ops/columns.h"

/* What is wrong with which record. */
typedef struct {
    size_t record;
    const wanted_column *column; /* NULL: the record as a whole */
    ex_bytes key, feature;
    ex_status status; /* EX_OK: now->why tells */
    bool sequence;    /* the record should be a SequenceExample */
    bool in_step;     /* of a feature list, whose number is `step` */
    size_t step;
} decode_fault;

/* Says what is wrong, behind `place`: always false. */
bool decode_fail(const decode_fault *fault, const char *place, failure *why);

#endif
