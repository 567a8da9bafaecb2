#define _DEFAULT_SOURCE /* clock_gettime */
#define _DARWIN_C_SOURCE
#include "example/example_columns.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/clock.h"

#ifndef TILE
#define TILE ((size_t)256) /* records whose places stay in the cache until their values are read */
#endif
#define STRIDE (TILE + 12) /* a power of two would share few sets of the cache */

static ex_status read_tile(ex_columns_task *made, ex_keys *keys, const ex_part *part, size_t first,
                           size_t records) {
    size_t failed = 0;
    for (size_t i = 0; i < records; i++) {
        ex_bytes record = {part->base + part->starts[first + i], (size_t)part->sizes[first + i]};
        ex_status status = ex_locate(keys, record, EX_FEATURES, made->slots + i, STRIDE);
        if (status != EX_OK) return status;
    }
    for (size_t k = 0; k < made->count; k++) {
        ex_fixed *column = &made->columns[k];
        ex_column source = {.slots = made->slots + k * STRIDE,
                            .records = records,
                            .width = column->width};
        ex_status status;
        if (column->kind == EX_FLOAT) {
            status = ex_read_floats(&source, column->out, &failed);
            column->out = (float *)column->out + records * column->width;
        } else {
            status = ex_read_int64s(&source, column->out, &failed);
            column->out = (int64_t *)column->out + records * column->width;
        }
        if (status != EX_OK) return status;
    }
    return EX_OK;
}

static void run(task *begun) {
    ex_columns_task *made = (ex_columns_task *)begun;
    uint64_t began = nanoseconds();
    ex_status status = EX_OK;
    ex_keys keys;
    ex_keys_init(&keys, made->keys, made->count, made->table, made->next);
    for (size_t i = 0; i < made->part_count && status == EX_OK; i++) {
        const ex_part *part = &made->parts[i];
        for (size_t at = 0; at < part->count && status == EX_OK; at += TILE) {
            size_t left = part->count - at;
            status = read_tile(made, &keys, part, at, left < TILE ? left : TILE);
        }
    }
    made->status = status;
    made->ns = nanoseconds() - began;
}

static void end(task *ended) {
    ex_columns_task *made = (ex_columns_task *)ended;
    for (size_t k = 0; made->keys != NULL && k < made->count; k++) free((void *)made->keys[k].data);
    free(made->parts);
    free(made->keys);
    free(made->columns);
    free(made->table);
    free(made->next);
    free(made->slots);
    free(made);
}

ex_columns_task *ex_new_columns_task(size_t parts, size_t columns) {
    ex_columns_task *made = calloc(1, sizeof(*made));
    if (made == NULL) return NULL;
    task_make(&made->task, run, end);
    made->part_count = parts;
    made->count = columns;
    made->status = EX_MISSING;
    made->parts = calloc(parts + 1, sizeof(ex_part));
    made->keys = calloc(columns + 1, sizeof(ex_bytes));
    made->columns = calloc(columns + 1, sizeof(ex_fixed));
    made->table = calloc(ex_table_size(columns), sizeof(ex_key_slot));
    made->next = calloc(columns + 1, sizeof(uint32_t));
    made->slots = calloc(columns + 1, STRIDE * sizeof(ex_bytes));
    bool good = made->parts && made->keys && made->columns && made->table && made->next;
    if (good && made->slots) return made;
    task_leave(&made->task);
    return NULL;
}

bool ex_set_key(ex_columns_task *made, size_t column, ex_bytes key) {
    uint8_t *copy = malloc(key.size + 1);
    if (copy == NULL) return false;
    memcpy(copy, key.data, key.size);
    made->keys[column] = (ex_bytes){copy, key.size};
    return true;
}

static _Atomic(ex_kept *) all_kept;

void ex_keep(ex_kept *kept) {
    kept->next = atomic_load(&all_kept);
    while (!atomic_compare_exchange_weak(&all_kept, &kept->next, kept)) continue;
}

ex_kept *ex_take_kept(void) { return atomic_exchange(&all_kept, NULL); }
