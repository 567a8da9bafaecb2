/* Examples and SequenceExamples to the tensors that columns say. */
#ifndef TFIO_STORE_OP_DECODE_H
#define TFIO_STORE_OP_DECODE_H

#include "tensorflow/ops/op_call.h"

/* --- columns ---------------------------------------------------------------------------------- */

/* The columns that Examples and SequenceExamples are decoded to: the op's attribute `columns`.
 *
 * `tfio_store/tf/dataset/columns.py` writes it, one column after the other, those of feature lists last,
 * numbers little-endian:
 *
 *   uint8   kind      1 bytes, 2 float, 3 int64, as in example.h
 *   uint8   layout    a op_layout
 *   uint8   rank      of one record's values, or of one step's
 *   uint8   fallback  1: what stands for missing values follows
 *   uint32  bytes of the key
 *   int64   dims[rank]
 *   key
 *   fallback: float32 or int64 values, or for each a uint32 size and its bytes; as many as a record has
 *             values, but one (that rows are filled up with) where they are PADDED
 */

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
} op_layout;

typedef struct {
    ex_kind kind;
    op_layout layout;
    TF_DataType type;
    int rank;
    int64_t dims[MAX_RANK];
    size_t width; /* values of a record or step, or in each of its values where they are PADDED */
    const void *fallback; /* float, int64_t or ex_bytes; NULL: there is none */
    int output;           /* the first of its outputs */
} op_column;

typedef struct {
    size_t count;
    size_t features; /* columns of features; behind them, those of feature lists */
    op_column *all;
    ex_bytes *keys;
    ex_keys found;       /* of the features' keys; `next` is each call's own */
    ex_keys found_lists; /* of those of feature lists */
    int outputs;
    bool varies; /* some column is not FIXED */
    char *text;  /* the attribute, which keys and strings lie in */
} op_columns;

/* Takes `text` over, of `size` bytes, whatever it answers. Needs `op_columns_release` in any case. */
bool op_columns_parse(op_columns *of, char *text, size_t size, failure *why);
/* The same of a kernel's attribute, unless `status` is bad. */
void op_columns_attribute(op_columns *of, TF_OpKernelConstruction *context, TF_Status *status);
void op_columns_release(op_columns *of);

/* Outputs of a column, and which of them are its values. */
int op_layout_outputs(op_layout layout);
int op_layout_values(op_layout layout);

/* Whether it is one of a feature list. */
bool op_layout_has_steps(op_layout layout);

/* --- what is wrong ---------------------------------------------------------------------------- */

/* What is wrong with which record. */
typedef struct {
    size_t record;
    const op_column *column; /* NULL: the record as a whole */
    ex_bytes key, feature;
    ex_status status; /* EX_OK: call->why tells */
    bool sequence;    /* the record should be a SequenceExample */
    bool in_step;     /* of a feature list, whose number is `step` */
    size_t step;
} op_fault;

/* Says what is wrong, behind `place`: always false. */
bool op_fault_fail(const op_fault *fault, const char *place, failure *why);

/* --- decoding --------------------------------------------------------------------------------- */

/* Makes all of the op's outputs. */
bool op_decode(op_call *call, const op_columns *wanted, const ex_bytes *records, size_t count,
               op_fault *fault);

/* The same, or without columns the records as they are: string [count]. */
bool op_output_rows(op_call *call, const op_columns *wanted, const ex_bytes *records, size_t count,
                    op_fault *fault);

/* Whether the op was declared with the outputs that the columns have. */
bool op_check_outputs(op_call *call, const op_columns *wanted);

/* --- tiles ------------------------------------------------------------------------------------ */

/* Where the wanted features of records lie, a tile of records at a time: so many that what is noted of
 * them stays in the cache until it was read. */

#ifndef TILE /* fuzzing builds this with a small one */
#define TILE ((size_t)1024)
#endif

typedef struct {
    const ex_bytes *records;
    size_t count, columns;
    size_t stride; /* slots from one column of a tile to the next */
    size_t kept;   /* tiles of which there are slots: all, or one */
    ex_keys features, lists;
    ex_bytes *slots;
    op_chunk memory;
} op_tiles;

/* With `all`, every tile's slots stay until the end; else each tile takes the place of the last. */
bool op_tiles_begin(op_tiles *of, const op_columns *wanted, const ex_bytes *records, size_t count,
                    bool all, failure *why);
void op_tiles_release(op_tiles *of);

/* How many records the tile has that begins at record `start`. */
size_t op_tile_count(const op_tiles *of, size_t start);

/* Where column `k` of that tile lies, record by record. */
const ex_bytes *op_tile_column(const op_tiles *of, size_t start, size_t k);

/* Notes it. On failure *failed is the record. */
ex_status op_tile_locate(op_tiles *of, size_t start, size_t *failed);

/* --- values ----------------------------------------------------------------------------------- */

/* Reads the values that `source` says, of one column, to the memory of a tensor: float, int64_t or
 * TF_TString. `scratch` is kept from call to call. On failure *failed is the record; memory that can't be
 * had is told by `why` alone. */
ex_status op_read_values(const ex_column *source, ex_kind kind, void *to, op_chunk *scratch,
                         size_t *failed, failure *why);

/* --- a batch ---------------------------------------------------------------------------------- */

/* The decoding of one batch under way. */
typedef struct {
    op_call *call;
    const op_columns *wanted;
    op_tiles tiles;
    void **values;    /* of each FIXED column: its output */
    int64_t **counts; /* of each other: values or steps of each record, and one place more */
    op_chunk scratch;
    op_fault *fault;
} op_decoding;

/* Sets the fault of a tile's row; answers false. */
bool op_decoding_fail(op_decoding *all, size_t k, size_t start, size_t row, ex_status status);

/* Whether `nbytes` of records can hold what a column wants in so many rows. Where they can't, some row is
 * at fault. */
bool op_decoding_fits(const op_column *each, size_t rows, size_t nbytes);

/* Counts to where each row's values begin; the last is how many there are. */
int64_t op_decoding_splits(int64_t *counts, size_t rows, int64_t *most);

#endif
