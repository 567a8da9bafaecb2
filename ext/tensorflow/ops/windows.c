#include "tensorflow/ops/windows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct shared_window {
    int64_t group;
    uint64_t seed;
    uint64_t
        content;  /* a hash of the group's bounds, and of the spans, blocks and files it names */
    int64_t left; /* records that nobody has taken yet */
    size_t refs;  /* calls, and the list */
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

/* False, with now->why: there is no such text. */
static bool mix_text(uint64_t *hash, kernel_call *now, int input, int64_t index) {
    char text[MAX_NAME];
    if (!input_text(now, input, index, text, sizeof text)) return false;
    *hash = mix(*hash, text, strlen(text) + 1);
    return true;
}

/* Kernels may serve more than one dataset: TensorFlow makes one for all ops of equal attributes that
 * are run eagerly. */
static bool find_content(kernel_call *now, const blocks_request *asked, int64_t number,
                         uint64_t *content) {
    span_group group;
    size_t lanes = 0;
    if (!input_group(now, asked, number, &group)) return false;
    const int64_t *bounds = group_lanes(asked, number, &lanes);
    uint64_t hash = mix(0, bounds, (lanes + 1) * sizeof *bounds);
    int64_t file = -1;
    for (int64_t s = group.first; s < group.last; s++) {
        const span_row *span = &asked->spans[s];
        const block_row *row = &asked->table[span->block];
        hash = mix(mix(hash, span, sizeof *span), row, sizeof *row);
        for (int names = FILES; names <= VERSIONS && row->file != file; names++)
            if (!mix_text(&hash, now, names, row->file)) return false;
        file = row->file;
    }
    *content = hash;
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
