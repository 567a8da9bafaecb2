#include "tfrecord/tfrecord_span.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/pool.h"

#define EXPECTED_FRAME ((size_t)128)

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

size_t tfrecord_first_room(size_t size, size_t most) {
    size_t likely = size / EXPECTED_FRAME;
    return smaller(most, likely > TFRECORD_FEWEST_ENTRIES ? likely : TFRECORD_FEWEST_ENTRIES);
}

/* Room for so many records, with those that are there. */
static int set_room(tfrecord_task *made, size_t room) {
    size_t capacity = 0, held = made->cursor.count;
    int64_t *larger = NULL;
    if (room <= SIZE_MAX / (2 * sizeof(int64_t)))
        larger = pool_take(2 * room * sizeof(int64_t), &capacity);
    if (larger == NULL) return ENOMEM;
    if (held > 0) {
        memcpy(larger, made->offsets, held * sizeof(int64_t));
        memcpy(larger + room, made->offsets + made->room, held * sizeof(int64_t));
    }
    pool_give(made->offsets, made->index_capacity);
    made->offsets = larger;
    made->index_capacity = capacity;
    made->room = room;
    return 0;
}

static int scan(tfrecord_task *made) {
    tfrecord_span *span = &made->span;
    size_t done = 0, most = span->size / TFRECORD_OVERHEAD + 1;
    if (made->file.size < span->offset || made->file.size - span->offset < span->size)
        return ENODATA;
    made->memory = pool_take(made->headroom + span->size, &made->capacity);
    if (made->memory == NULL) return ENOMEM;
    size_t room = tfrecord_first_room(span->size, most);
    int error = set_room(made, made->expected < most ? made->expected + 1 : room);
    while (error == 0) {
        tfrecord_cursor step = made->cursor;
        size_t held = step.count;
        error = tfrecord_scan_file(&step, span, made->memory + made->headroom, &done,
                                   made->offsets + held, made->offsets + made->room + held,
                                   made->room - held);
        made->cursor = step;
        made->cursor.count += held;
        if (error != 0 || made->cursor.count < made->room || made->expected < most) break;
        error = set_room(made, smaller(most, 2 * made->room));
    }
    return error;
}

static void run(task *begun) {
    tfrecord_task *made = (tfrecord_task *)begun;
    made->cursor = (tfrecord_cursor){.sum = made->summed};
    int error = tfrecord_open(made->path, &made->file);
    if (error == 0) {
        made->span.descriptor = made->file.descriptor;
        error = scan(made);
        close(made->file.descriptor);
    }
    made->error = error;
}

static void end(task *ended) {
    tfrecord_task *made = (tfrecord_task *)ended;
    pool_give(made->memory, made->capacity);
    pool_give(made->offsets, made->index_capacity);
    free(made);
}

tfrecord_task *tfrecord_new_task(const char *path, const tfrecord_span *span) {
    size_t length = strlen(path) + 1;
    tfrecord_task *made = calloc(1, sizeof(*made) + length);
    if (made == NULL) return NULL;
    task_make(&made->task, run, end);
    made->span = *span;
    made->expected = SIZE_MAX;
    made->error = EINPROGRESS;
    memcpy(made->path, path, length);
    return made;
}
