#include "tensorflow/ops/windows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct shared_window {
    int64_t group;
    uint64_t seed;
    uint64_t content; /* a hash of the spans, blocks and files that the group names */
    int64_t left;     /* records that nobody has taken yet */
    size_t refs;      /* calls, and the list */
    shared_window *older;
    record_window *of;
};

struct window_cache {
    pthread_mutex_t lock; /* over the list and what it holds but for the windows themselves */
    shared_window *newest;
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

static uint64_t mix_text(uint64_t hash, const kernel_call *now, int input, int64_t index) {
    const TF_Tensor *tensor = now->inputs[input];
    if (index < 0 || index >= tf.Dim(tensor, 0)) return hash; /* reading will tell */
    const TF_TString *text = (const TF_TString *)tf.TensorData(tensor) + index;
    size_t size = tf.StringGetSize(text);
    return mix(mix(hash, &size, sizeof size), tf.StringGetDataPointer(text), size);
}

/* Kernels may serve more than one dataset: TensorFlow makes one for all ops of equal attributes that
 * are run eagerly. */
static uint64_t content_of(const kernel_call *now, const blocks_request *asked, int64_t first,
                           int64_t last) {
    uint64_t hash = 0;
    int64_t file = -1;
    for (int64_t s = first; s < last; s++) {
        const span_row *span = &asked->spans[s];
        const block_row *row = &asked->table[span->block];
        hash = mix(mix(hash, span, sizeof *span), row, sizeof *row);
        for (int names = FILES; names <= VERSIONS && row->file != file; names++)
            hash = mix_text(hash, now, names, row->file);
        file = row->file;
    }
    return hash;
}

static bool find_content(kernel_call *now, const blocks_request *asked, int64_t group,
                         uint64_t *content) {
    int64_t first = 0, last = 0;
    if (!group_spans(now, asked, group, &first, &last)) return false;
    for (int64_t s = first; s < last; s++)
        if (!check_span(now, asked, &asked->spans[s])) return false;
    *content = content_of(now, asked, first, last);
    return true;
}

/* --- the list, under the lock ------------------------------------------------------------------- */

/* The reference goes; answers the window if it was the last, to be deleted without the lock: that may
 * enter Python. */
static shared_window *unref(shared_window *held) { return --held->refs == 0 ? held : NULL; }

static shared_window *unlink_window(window_cache *all, shared_window *old) {
    shared_window **at = &all->newest;
    while (*at != old) at = &(*at)->older;
    *at = old->older;
    all->count--;
    return unref(old);
}

static shared_window *oldest(const window_cache *all) {
    shared_window *last = all->newest;
    while (last->older != NULL) last = last->older;
    return last;
}

static shared_window *find(const window_cache *all, int64_t group, uint64_t seed,
                           uint64_t content) {
    shared_window *known = all->newest;
    while (known != NULL &&
           (known->group != group || known->seed != seed || known->content != content))
        known = known->older;
    return known;
}

static shared_window *add(window_cache *all, kernel_call *now, const blocks_request *asked,
                          int64_t group, uint64_t seed, uint64_t content) {
    shared_window *added = calloc(1, sizeof *added);
    record_window *of = added != NULL ? window_new(now, asked, group) : NULL;
    if (of == NULL) {
        free(added);
        if (now->why.code == TF_OK) fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    *added = (shared_window){group, seed, content, window_expected(of), 1, all->newest, of};
    all->newest = added;
    all->count++;
    return added;
}

static void delete_window(shared_window *unused) {
    if (unused != NULL) window_delete(unused->of);
    free(unused);
}

/* --- the calls ---------------------------------------------------------------------------------- */

window_cache *windows_new(void) {
    window_cache *all = calloc(1, sizeof *all);
    if (all != NULL) pthread_mutex_init(&all->lock, NULL);
    return all;
}

void windows_delete(window_cache *all) {
    if (all == NULL) return;
    while (all->newest != NULL) delete_window(unlink_window(all, all->newest));
    pthread_mutex_destroy(&all->lock);
    free(all);
}

shared_window *windows_take(window_cache *all, kernel_call *now, const blocks_request *asked,
                            int64_t group, uint64_t seed, int64_t taking) {
    uint64_t content = 0;
    if (!find_content(now, asked, group, &content)) return NULL;
    shared_window *surplus = NULL;
    pthread_mutex_lock(&all->lock);
    shared_window *held = find(all, group, seed, content);
    if (held == NULL) {
        held = add(all, now, asked, group, seed, content);
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

void windows_give(window_cache *all, shared_window *held) {
    pthread_mutex_lock(&all->lock);
    shared_window *last = unref(held);
    pthread_mutex_unlock(&all->lock);
    delete_window(last);
}

record_window *windows_window(shared_window *held) { return held->of; }
