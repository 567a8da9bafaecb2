#include "tensorflow/ops/window.h"

#include <pthread.h>
#include <stdlib.h>

#include "tfrecord/tfrecord.h"

struct record_window {
    pthread_mutex_t lock; /* over all that follows, until the window is ready */
    pthread_cond_t now_ready;
    int64_t first; /* of its spans in the request */
    int64_t expected;
    size_t spans, begun, done;
    size_t lanes, *bounds; /* of its spans */
    size_t failed;         /* the first span that could not be read whole; `spans`: none */
    bool ready;
    record_list *records;
    failure why;
    span_run runs[];
};

/* --- its life ----------------------------------------------------------------------------------- */

/* Up to the first damage; of lanes, no records if there is any. */
static void join(record_window *of, const uint64_t *seed) {
    const bool whole = of->failed == of->spans;
    const size_t until[2] = {0, whole ? of->spans : of->failed + 1}, none[2] = {0, 0};
    size_t stopped = 0;
    failure why;
    if (of->lanes == 1)
        of->records = runs_join(of->runs, until, 1, NULL, &stopped, &why);
    else if (whole)
        of->records = runs_join(of->runs, of->bounds, of->lanes, NULL, &stopped, &why);
    else
        of->records = runs_join(of->runs, none, 1, NULL, &stopped, &why);
    if (of->records == NULL)
        of->why = why;
    else if (seed != NULL)
        records_shuffle(of->records, *seed);
}

/* The last span was read: what is needed from here on are the bytes and the list. */
static void finish(record_window *of, const uint64_t *seed) {
    join(of, seed);
    for (size_t i = 0; i < of->spans; i++)
        if (of->runs[i].lent == NULL) chunk_release(&of->runs[i].found.table);
    of->ready = true;
    pthread_cond_broadcast(&of->now_ready);
}

static bool copy_bounds(record_window *of, const blocks_request *asked, int64_t group) {
    const int64_t *bounds = group_lanes(asked, group, &of->lanes);
    of->bounds = calloc(of->lanes + 1, sizeof *of->bounds);
    for (size_t i = 0; i <= of->lanes && of->bounds != NULL; i++)
        of->bounds[i] = (size_t)(bounds[i] - bounds[0]);
    return of->bounds != NULL;
}

record_window *window_new(kernel_call *now, const blocks_request *asked, int64_t number) {
    span_group group;
    if (!input_group(now, asked, number, &group)) return NULL;
    const size_t spans = (size_t)(group.last - group.first);
    record_window *of = calloc(1, sizeof *of + spans * sizeof *of->runs);
    if (of == NULL || (number >= 0 && !copy_bounds(of, asked, number))) {
        free(of);
        fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    if (number < 0) of->lanes = 1;
    pthread_mutex_init(&of->lock, NULL);
    pthread_cond_init(&of->now_ready, NULL);
    of->first = group.first;
    of->expected = group.records;
    of->failed = of->spans = spans;
    if (of->spans == 0) finish(of, NULL);
    return of;
}

void window_delete(record_window *of) {
    if (of == NULL) return;
    for (size_t i = 0; i < of->spans; i++) run_release(&of->runs[i]);
    records_delete(of->records);
    free(of->bounds);
    pthread_mutex_destroy(&of->lock);
    pthread_cond_destroy(&of->now_ready);
    free(of);
}

/* --- reading ------------------------------------------------------------------------------------ */

/* With the lock, which is let go meanwhile. What lies behind damage is not read. The request may be another
 * call's than the one that the window was made for. */
static void read_span(record_window *of, size_t i, kernel_call *now, const blocks_request *asked,
                      const read_settings *settings) {
    bool wanted = i < of->failed;
    pthread_mutex_unlock(&of->lock);
    const span_row *span = wanted ? input_span(now, asked, of->first + (int64_t)i) : NULL;
    bool good = !wanted || (span && run_read(now, asked, span, settings, &of->runs[i]));
    pthread_mutex_lock(&of->lock);
    if (!good && i < of->failed) {
        of->failed = i;
        of->why = now->why;
    }
    now->why.code = TF_OK; /* the window's failure is not the call's, whose records may be good */
}

void window_read(record_window *of, kernel_call *now, const blocks_request *asked,
                 const read_settings *settings, const uint64_t *seed) {
    pthread_mutex_lock(&of->lock);
    while (of->begun < of->spans) {
        read_span(of, of->begun++, now, asked, settings);
        if (++of->done == of->spans) finish(of, seed);
    }
    while (!of->ready) pthread_cond_wait(&of->now_ready, &of->lock);
    pthread_mutex_unlock(&of->lock);
}

/* --- what was read ------------------------------------------------------------------------------ */

int64_t window_expected(const record_window *of) { return of->expected; }

const record_list *window_records(const record_window *of) { return of->records; }

const failure *window_damage(const record_window *of) { return &of->why; }

bool window_place(const record_window *of, kernel_call *now, const blocks_request *asked,
                  const uint8_t *record, const span_row **span, int64_t *offset) {
    for (size_t i = 0; i < of->spans; i++) {
        const chunk *bytes = &of->runs[i].found.bytes;
        if (bytes->data == NULL || record < bytes->data || record > bytes->data + bytes->size)
            continue;
        *span = input_span(now, asked, of->first + (int64_t)i);
        if (*span == NULL) return false;
        const block_row *row = &asked->table[(*span)->block];
        *offset = row->raw_start + (record - bytes->data) - TFRECORD_HEADER;
        return true;
    }
    return false;
}
