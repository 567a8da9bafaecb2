#include "tensorflow/ops/op_window.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tfrecord/tfrecord.h"

struct op_window {
    pthread_mutex_t lock; /* over all that follows, until the window is ready */
    pthread_cond_t now_ready;
    int64_t first; /* of its spans in the request */
    int64_t expected;
    size_t spans, begun, done;
    size_t lanes, *bounds; /* of its spans */
    size_t failed;         /* the first span that could not be read whole; `spans`: none */
    bool ready;
    op_records *records;
    failure why;
    op_run runs[];
};

/* --- its life ----------------------------------------------------------------------------------- */

/* Up to the first damage; of lanes, no records if there is any. */
static void join(op_window *of, const uint64_t *seed) {
    const bool whole = of->failed == of->spans;
    const size_t until[2] = {0, whole ? of->spans : of->failed + 1}, none[2] = {0, 0};
    size_t stopped = 0;
    failure why;
    if (of->lanes == 1)
        of->records = op_runs_join(of->runs, until, 1, NULL, &stopped, &why);
    else if (whole)
        of->records = op_runs_join(of->runs, of->bounds, of->lanes, NULL, &stopped, &why);
    else
        of->records = op_runs_join(of->runs, none, 1, NULL, &stopped, &why);
    if (of->records == NULL)
        of->why = why;
    else if (seed != NULL)
        op_records_shuffle(of->records, *seed);
}

/* The last span was read: what is needed from here on are the bytes and the list. */
static void finish(op_window *of, const uint64_t *seed) {
    join(of, seed);
    for (size_t i = 0; i < of->spans; i++)
        if (of->runs[i].lent == NULL) op_chunk_release(&of->runs[i].found.table);
    of->ready = true;
    pthread_cond_broadcast(&of->now_ready);
}

static bool copy_bounds(op_window *of, const op_request *asked, int64_t group) {
    const int64_t *bounds = op_group_lanes(asked, group, &of->lanes);
    of->bounds = calloc(of->lanes + 1, sizeof *of->bounds);
    for (size_t i = 0; i <= of->lanes && of->bounds != NULL; i++)
        of->bounds[i] = (size_t)(bounds[i] - bounds[0]);
    return of->bounds != NULL;
}

op_window *op_window_new(op_call *call, const op_request *asked, int64_t number) {
    op_group group;
    if (!op_input_group(call, asked, number, &group)) return NULL;
    const size_t spans = (size_t)(group.last - group.first);
    op_window *of = calloc(1, sizeof *of + spans * sizeof *of->runs);
    if (of == NULL || (number >= 0 && !copy_bounds(of, asked, number))) {
        free(of);
        fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory");
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

void op_window_delete(op_window *of) {
    if (of == NULL) return;
    for (size_t i = 0; i < of->spans; i++) op_run_release(&of->runs[i]);
    op_records_delete(of->records);
    free(of->bounds);
    pthread_mutex_destroy(&of->lock);
    pthread_cond_destroy(&of->now_ready);
    free(of);
}

/* --- reading ------------------------------------------------------------------------------------ */

/* With the lock, which is let go meanwhile. What lies behind damage is not read. The request may be another
 * call's than the one that the window was made for. */
static void read_span(op_window *of, size_t i, op_call *call, const op_request *asked) {
    bool wanted = i < of->failed;
    pthread_mutex_unlock(&of->lock);
    const op_span *span = wanted ? op_input_span(call, asked, of->first + (int64_t)i) : NULL;
    bool good = !wanted || (span && op_run_read(call, asked, span, &of->runs[i]));
    pthread_mutex_lock(&of->lock);
    if (!good && i < of->failed) {
        of->failed = i;
        of->why = call->why;
    }
    call->why.code = TF_OK; /* the window's failure is not the call's, whose records may be good */
}

void op_window_read(op_window *of, op_call *call, const op_request *asked, const uint64_t *seed) {
    pthread_mutex_lock(&of->lock);
    while (of->begun < of->spans) {
        read_span(of, of->begun++, call, asked);
        if (++of->done == of->spans) finish(of, seed);
    }
    while (!of->ready) pthread_cond_wait(&of->now_ready, &of->lock);
    pthread_mutex_unlock(&of->lock);
}

/* --- what was read ------------------------------------------------------------------------------ */

int64_t op_window_expected(const op_window *of) { return of->expected; }

const op_records *op_window_records(const op_window *of) { return of->records; }

const failure *op_window_damage(const op_window *of) { return &of->why; }

bool op_window_place(const op_window *of, op_call *call, const op_request *asked,
                     const uint8_t *record, const op_span **span, int64_t *offset) {
    for (size_t i = 0; i < of->spans; i++) {
        const op_chunk *bytes = &of->runs[i].found.bytes;
        if (bytes->data == NULL || record < bytes->data || record > bytes->data + bytes->size)
            continue;
        *span = op_input_span(call, asked, of->first + (int64_t)i);
        if (*span == NULL) return false;
        const op_block_row *row = &asked->table[(*span)->block];
        *offset = row->raw_start + (record - bytes->data) - TFRECORD_HEADER;
        return true;
    }
    return false;
}

/* --- the windows of a kernel ------------------------------------------------------------------ */

struct op_shared_window {
    int64_t group;
    uint64_t seed;
    uint64_t
        content;  /* a hash of the group's bounds, and of the spans, blocks and files it names */
    int64_t left; /* records that nobody has taken yet */
    size_t refs;  /* calls, and the list */
    op_shared_window *older;
    op_window *of;
};

struct op_windows {
    pthread_mutex_t lock; /* over the list and what it holds but for the windows themselves */
    op_shared_window *newest;
    size_t count;
};

/* --- which window ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
    const char *p = bytes;
    for (uint64_t word = 0; size > 0; word = 0) {
        size_t n = size < sizeof word ? size : sizeof word;
        memcpy(&word, p, n);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
        p += n;
        size -= n;
    }
    return hash;
}

/* False, with call->why: there is no such text. */
static bool mix_text(uint64_t *hash, op_call *call, int input, int64_t index) {
    char text[MAX_NAME];
    if (!op_input_text(call, input, index, text, sizeof text)) return false;
    *hash = mix(*hash, text, strlen(text) + 1);
    return true;
}

/* Kernels may serve more than one dataset: TensorFlow makes one for all ops of equal attributes that
 * are run eagerly. */
static bool find_content(op_call *call, const op_request *asked, int64_t number,
                         uint64_t *content) {
    op_group group;
    size_t lanes = 0;
    if (!op_input_group(call, asked, number, &group)) return false;
    const int64_t *bounds = op_group_lanes(asked, number, &lanes);
    uint64_t hash = mix(0, bounds, (lanes + 1) * sizeof *bounds);
    int64_t file = -1;
    for (int64_t s = group.first; s < group.last; s++) {
        const op_span *span = &asked->spans[s];
        const op_block_row *row = &asked->table[span->block];
        hash = mix(mix(hash, span, sizeof *span), row, sizeof *row);
        for (int names = FILES; names <= VERSIONS && row->file != file; names++)
            if (!mix_text(&hash, call, names, row->file)) return false;
        file = row->file;
    }
    *content = hash;
    return true;
}

/* --- the list, under the lock ------------------------------------------------------------------- */

/* The reference goes; answers the window if it was the last, to be deleted without the lock: that may
 * enter Python. */
static op_shared_window *unref(op_shared_window *held) { return --held->refs == 0 ? held : NULL; }

static op_shared_window *unlink_window(op_windows *all, op_shared_window *old) {
    op_shared_window **at = &all->newest;
    while (*at != old) at = &(*at)->older;
    *at = old->older;
    all->count--;
    return unref(old);
}

static op_shared_window *oldest(const op_windows *all) {
    op_shared_window *last = all->newest;
    while (last->older != NULL) last = last->older;
    return last;
}

static op_shared_window *find(const op_windows *all, int64_t group, uint64_t seed,
                              uint64_t content) {
    op_shared_window *known = all->newest;
    while (known != NULL &&
           (known->group != group || known->seed != seed || known->content != content))
        known = known->older;
    return known;
}

static op_shared_window *add(op_windows *all, op_call *call, const op_request *asked, int64_t group,
                             uint64_t seed, uint64_t content) {
    op_shared_window *added = calloc(1, sizeof *added);
    op_window *of = added != NULL ? op_window_new(call, asked, group) : NULL;
    if (of == NULL) {
        free(added);
        if (call->why.code == TF_OK) fail(&call->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    *added = (op_shared_window){group, seed, content, op_window_expected(of), 1, all->newest, of};
    all->newest = added;
    all->count++;
    return added;
}

static void delete_window(op_shared_window *unused) {
    if (unused != NULL) op_window_delete(unused->of);
    free(unused);
}

/* --- the calls ---------------------------------------------------------------------------------- */

op_windows *op_windows_new(void) {
    op_windows *all = calloc(1, sizeof *all);
    if (all != NULL) pthread_mutex_init(&all->lock, NULL);
    return all;
}

void op_windows_delete(op_windows *all) {
    if (all == NULL) return;
    while (all->newest != NULL) delete_window(unlink_window(all, all->newest));
    pthread_mutex_destroy(&all->lock);
    free(all);
}

op_shared_window *op_windows_take(op_windows *all, op_call *call, const op_request *asked,
                                  int64_t group, uint64_t seed, int64_t taking) {
    uint64_t content = 0;
    if (!find_content(call, asked, group, &content)) return NULL;
    op_shared_window *surplus = NULL;
    pthread_mutex_lock(&all->lock);
    op_shared_window *held = find(all, group, seed, content);
    if (held == NULL) {
        held = add(all, call, asked, group, seed, content);
        if (all->count > MAX_WINDOWS) surplus = unlink_window(all, oldest(all));
    }
    if (held != NULL) {
        held->refs++;
        held->left -= taking;
        if (held->left <= 0) unlink_window(all, held); /* never the last reference: ours is there */
    }
    pthread_mutex_unlock(&all->lock);
    delete_window(surplus);
    return held;
}

void op_windows_give(op_windows *all, op_shared_window *held) {
    pthread_mutex_lock(&all->lock);
    op_shared_window *last = unref(held);
    pthread_mutex_unlock(&all->lock);
    delete_window(last);
}

op_window *op_windows_window(op_shared_window *held) { return held->of; }

/* --- TfioStoreWindowRows ------------------------------------------------------------------------ */

enum { WINDOW, WINDOW_SEED, WINDOW_SIZES, WINDOW_INPUT_COUNT };
enum { WINDOWS, PER_WINDOW, IN_LAST, WINDOW_MARK, SIZE_COUNT };

/* [window, batch, seed] for each batch of a window, whose number has a mark. */
void op_window_rows(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    op_call call;
    const int64_t *window = NULL, *seed = NULL, *sizes = NULL;
    if (op_call_begin(&call, context, WINDOW_INPUT_COUNT) &&
        op_input_numbers(&call, WINDOW, 1, &window) &&
        op_input_numbers(&call, WINDOW_SEED, 1, &seed) &&
        op_input_numbers(&call, WINDOW_SIZES, SIZE_COUNT, &sizes) &&
        op_check_mark(&call, window[0], sizes[WINDOW_MARK])) {
        const int64_t number = op_marked_group(window[0]);
        const bool whole = 0 <= number && number < sizes[WINDOWS];
        const bool last = whole && number == sizes[WINDOWS] - 1;
        const int64_t batches = sizes[last ? IN_LAST : PER_WINDOW];
        const int64_t dims[2] = {whole ? batches : 1, WANTED_COUNT};
        int64_t *rows = dims[0] < 0 ? NULL : op_output_tensor(&call, 0, TF_INT64, dims, 2);
        for (int64_t i = 0; rows != NULL && i < dims[0]; i++) {
            rows[WANTED_COUNT * i + WANTED_GROUP] = window[0];
            rows[WANTED_COUNT * i + WANTED_BATCH] = i;
            rows[WANTED_COUNT * i + WANTED_SEED] = seed[0];
        }
        if (rows == NULL && call.why.code == TF_OK)
            fail(&call.why, TF_INVALID_ARGUMENT, "a window has no %" PRId64 " batches", dims[0]);
    }
    op_call_end(&call);
}
