/* The columns that Examples and SequenceExamples are decoded to: the op's attribute `columns`.
 *
 * `tfio_store/tf/dataset/columns.py` writes it, one column after the other, those of feature lists last,
 * numbers little-endian:
 *
 *   uint8   kind      1 bytes, 2 float, 3 int64, as in example.h
 *   uint8   layout    a column_layout
 *   uint8   rank      of one record's values, or of one step's
 *   uint8   fallback  1: what stands for missing values follows
 *   uint32  bytes of the key
 *   int64   dims[rank]
 *   key
 *   fallback: float32 or int64 values, or for each a uint32 size and its bytes; as many as a record has
 *             values, but one (that rows are filled up with) where they are PADDED
 */
#ifndef TFIO_STORE_TF_COLUMNS_H
#define TFIO_STORE_TF_COLUMNS_H

#include <stdbool.h>

#include "example/example.h"
#include "tensorflow/ops/chunk.h"

enum { MAX_RANK = 16 };

typedef enum {
    COLUMN_FIXED,    /* one output, [records, *dims] */
    COLUMN_PADDED,   /* one output, [records, most, *dims]: rows of any number of such values */
    COLUMN_RAGGED,   /* two: values [n], int64 row_splits [records + 1] */
    COLUMN_RAGGED32, /* the same, with int32 row_splits */
    COLUMN_SPARSE,   /* three: indices [n, 2], values [n], dense shape [2] */
    /* Of feature lists. Each record has any number of steps, and an absent list has none: */
    COLUMN_STEPS, /* two: values [steps, *dims], int64 row_splits [records + 1] */
    COLUMN_ROWS, /* three: values [n], int64 row_splits of steps [steps + 1], of records [records + 1] */
    COLUMN_LAYOUTS
} column_layout;

typedef struct {
    ex_kind kind;
    column_layout layout;
    TF_DataType type;
    int rank;
    int64_t dims[MAX_RANK];
    size_t width; /* values of a record or step, or in each of its values where they are PADDED */
    const void *fallback; /* float, int64_t or ex_bytes; NULL: there is none */
    int output;           /* the first of its outputs */
} wanted_column;

typedef struct {
    size_t count;
    size_t features; /* columns of features; behind them, those of feature lists */
    wanted_column *all;
    ex_bytes *keys;
    ex_keys found;       /* of the features' keys; `next` is each call's own */
    ex_keys found_lists; /* of those of feature lists */
    int outputs;
    bool varies; /* some column is not FIXED */
    char *text;  /* the attribute, which keys and strings lie in */
} column_list;

/* Takes `text` over, of `size` bytes, whatever it answers. Needs `columns_release` in any case. */
bool columns_parse(column_list *of, char *text, size_t size, failure *why);
void columns_release(column_list *of);

/* Outputs of a column, and which of them are its values. */
int column_outputs(column_layout layout);
int column_values(column_layout layout);

/* Whether it is one of a feature list. */
bool column_has_steps(column_layout layout);

#endif
