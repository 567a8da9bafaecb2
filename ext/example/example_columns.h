/* Columns of numbers of a fixed shape, of many records, decoded from end to end by any thread. */
#ifndef TFIO_STORE_EXAMPLE_COLUMNS_H
#define TFIO_STORE_EXAMPLE_COLUMNS_H

#include "example/example.h"
#include "tasks/tasks.h"

/* Records in one buffer. */
typedef struct {
    const uint8_t *base;
    const int64_t *starts, *sizes;
    size_t count;
} ex_part;

/* Where the values of a column go: `width` of each record, one record behind the other. */
typedef struct {
    ex_kind kind; /* EX_FLOAT or EX_INT64 */
    size_t width;
    void *out; /* float or int64_t */
} ex_fixed;

typedef struct {
    task task;
    size_t part_count, count;
    ex_part *parts;
    ex_bytes *keys;
    ex_fixed *columns;
    /* What comes of it: not EX_OK where one record is unusual, and then nothing is whole. */
    ex_status status;
    uint64_t ns;
    /* Its own. */
    ex_key_slot *table;
    uint32_t *next;
    ex_bytes *slots;
} ex_columns_task;

/* Room for so many parts and columns, which the caller fills in. What they point to is his, and must
 * stay until the task has run. NULL if there is no memory. */
ex_columns_task *ex_new_columns_task(size_t parts, size_t columns);

/* Copies the key of a column: Python's own memory may go before the task has ended. False if there is
 * no memory. */
bool ex_set_key(ex_columns_task *made, size_t column, ex_bytes key);

/* A task that its owner dropped while a thread worked on it, and Python's object with all that it
 * points to. They are kept by C alone, for they may have to outlive the interpreter. */
typedef struct ex_kept {
    struct ex_kept *next;
    ex_columns_task *made;
    void *held;
} ex_kept;

void ex_keep(ex_kept *kept);

/* All that are kept, for the caller to end what is done, and to keep the others. */
ex_kept *ex_take_kept(void);

#endif
