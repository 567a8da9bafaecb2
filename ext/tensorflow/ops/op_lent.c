#define _POSIX_C_SOURCE 200809L /* strdup, clock_gettime */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/ops/op_blocks.h"

typedef enum { NEW, BEGINNING, BEGUN, LOADING, LOADED, FAILED } lent_state;

struct op_lent {
    uint64_t hash; /* of what follows, which tells one block from another */
    char *url, *version;
    int64_t start, stop;
    op_sums sums;
    op_settings settings; /* with an `options` of its own */

    lent_state state;
    void *fetch; /* BEGUN: on its way in Python */
    bool here;   /* … and nobody has to wait for it */
    op_part found;
    failure why;  /* FAILED: why there is no block. LOADED: what is wrong behind its good records */
    int64_t left; /* records that nobody has taken yet */
    size_t nbytes;
    time_t used;
    size_t refs; /* calls, and the list */
    op_lent *newer, *older;
    op_lent *next; /* of its bucket */
};

enum { BUCKETS = 4096 };

op_python_functions op_python;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all that follows, and all blocks */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static op_lent *buckets[BUCKETS]; /* the listed blocks, by their hash */
static op_lent *newest, *oldest;
static size_t kept;

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* --- which block -------------------------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *p = bytes; /* FNV-1a */
    for (size_t i = 0; i < size; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_of(const op_block *block) {
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, block->url, strlen(block->url));
    hash = hash_bytes(hash, block->version, strlen(block->version));
    hash = hash_bytes(hash, &block->start, sizeof block->start);
    return hash_bytes(hash, block->settings->options, strlen(block->settings->options));
}

/* What a call asks for. The hash is made before the lock is taken. */
typedef struct {
    const op_block *block;
    uint64_t hash;
} lent_wish;

#define SAME_FIELD(name, value) &&one->name == other->name

/* Whether both read the same of a block. What is partial says only what is done with that. */
static bool read_the_same(const op_settings *one, const op_settings *other) {
    return strcmp(one->options, other->options) == 0 READING_OPTIONS(SAME_FIELD, SAME_FIELD);
}

static bool is_same(const op_lent *known, const lent_wish *wish) {
    const op_block *block = wish->block;
    return known->hash == wish->hash && known->start == block->start &&
           known->stop == block->stop && known->sums.before == block->sums.before &&
           known->sums.behind == block->sums.behind && strcmp(known->url, block->url) == 0 &&
           strcmp(known->version, block->version) == 0 &&
           read_the_same(&known->settings, block->settings);
}

static lent_wish wish_of(const op_block *block) { return (lent_wish){block, hash_of(block)}; }

/* --- the list, under the lock ------------------------------------------------------------------- */

static void unlink_block(op_lent *block) {
    *(block->newer != NULL ? &block->newer->older : &newest) = block->older;
    *(block->older != NULL ? &block->older->newer : &oldest) = block->newer;
    block->newer = block->older = NULL;
    op_lent **at = &buckets[block->hash % BUCKETS];
    while (*at != block) at = &(*at)->next;
    *at = block->next;
}

static void link_newest(op_lent *block) {
    block->older = newest;
    *(newest != NULL ? &newest->newer : &oldest) = block;
    newest = block;
    op_lent **bucket = &buckets[block->hash % BUCKETS];
    block->next = *bucket;
    *bucket = block;
}

/* The caller's reference goes; answers the block if it was the last, to be freed without the lock. */
static op_lent *unref(op_lent *block) { return --block->refs == 0 ? block : NULL; }

static void forget(op_lent *block, op_lent **unused) {
    unlink_block(block);
    kept -= block->nbytes;
    block->left = INT64_MIN; /* not in the list */
    op_lent *last = unref(block);
    if (last != NULL) {
        last->older = *unused;
        *unused = last;
    }
}

static void free_blocks(op_lent *unused) {
    while (unused != NULL) {
        op_lent *next = unused->older;
        if (unused->fetch != NULL) op_python.drop_fetch(unused->fetch);
        op_part_release(&unused->found); /* enters Python, as that did */
        free(unused->url);
        free(unused->version);
        free(unused->settings.options);
        free(unused);
        unused = next;
    }
}

static bool is_listed(const op_lent *block) { return block->left != INT64_MIN; }

static void make_room(time_t moment, op_lent **unused) {
    while (oldest != newest && (kept > LENT_BYTES || moment - oldest->used >= LENT_SECONDS))
        forget(oldest, unused);
}

static op_lent *find(const lent_wish *wish, op_lent **unused) {
    op_lent *known = buckets[wish->hash % BUCKETS];
    while (known != NULL && !is_same(known, wish)) known = known->next;
    if (known != NULL && now() - known->used >= LENT_SECONDS) {
        forget(known, unused);
        known = NULL;
    }
    return known;
}

static op_lent *add(const lent_wish *wish, op_lent **unused) {
    const op_block *block = wish->block;
    op_lent *added = calloc(1, sizeof *added);
    if (added == NULL) return NULL;
    added->hash = wish->hash;
    added->url = strdup(block->url);
    added->version = strdup(block->version);
    added->settings = *block->settings;
    added->settings.options = strdup(block->settings->options);
    added->start = block->start;
    added->stop = block->stop;
    added->sums = block->sums;
    added->left = block->records;
    added->nbytes = (size_t)(block->raw_stop - block->raw_start);
    added->used = now();
    added->refs = 1;
    if (added->url == NULL || added->version == NULL || added->settings.options == NULL) {
        free_blocks(added);
        return NULL;
    }
    link_newest(added);
    kept += added->nbytes;
    make_room(added->used, unused);
    return added;
}

/* --- the calls ---------------------------------------------------------------------------------- */

void op_lent_begin(const op_block *asked) {
    op_lent *unused = NULL, *added = NULL;
    const lent_wish wish = wish_of(asked);
    pthread_mutex_lock(&lock);
    if (find(&wish, &unused) == NULL) added = add(&wish, &unused);
    if (added != NULL) {
        added->refs++;
        added->state = BEGINNING;
    }
    pthread_mutex_unlock(&lock);
    free_blocks(unused);
    if (added == NULL) return;
    void *fetch = op_python.begin_block(asked);
    pthread_mutex_lock(&lock);
    added->fetch = fetch;
    added->state = fetch != NULL ? BEGUN : NEW;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    op_lent_release(added);
}

static bool is_coming(const op_lent *block) {
    return block->state == BEGINNING || block->state == BEGUN || block->state == LOADING;
}

/* With the lock, which is let go meanwhile. One thread stands at the fetch, which nobody else may take
 * from there; the others stand here. */
static void wait_a_moment(op_lent *block) {
    struct timespec until;
    if (block->state == BEGUN) {
        block->state = BEGINNING;
        pthread_mutex_unlock(&lock);
        bool here = op_python.await_fetch(block->fetch);
        pthread_mutex_lock(&lock);
        block->state = BEGUN;
        block->here = here;
        pthread_cond_broadcast(&changed);
    } else {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LENT_MOMENT;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&changed, &lock, &until);
    }
    block->used = now();
}

bool op_lent_await(const op_block *asked) {
    op_lent *unused = NULL;
    const lent_wish wish = wish_of(asked);
    op_lent_begin(asked); /* for it may have been let go */
    pthread_mutex_lock(&lock);
    op_lent *block = find(&wish, &unused);
    bool here = block == NULL || !is_coming(block) || block->here;
    if (!here) {
        block->refs++;
        wait_a_moment(block);
        here = !is_coming(block) || block->here;
        op_lent *last = unref(block);
        if (last != NULL) {
            last->older = unused;
            unused = last;
        }
    }
    pthread_mutex_unlock(&lock);
    free_blocks(unused);
    return here;
}

static bool load_local(const op_block *asked, op_chunk *bytes, failure *why) {
    op_file file;
    if (!op_file_open(&file, asked->url, asked->version, why)) return false;
    const bool had = op_file_read(&file, (uint64_t)asked->start, (uint64_t)asked->stop, bytes, why);
    op_file_close(&file);
    return had;
}

/* Fetches the block and looks its records up; one thread does, the others wait. */
static void load(op_lent *block, const op_block *asked, void *fetch) {
    const op_settings *settings = asked->settings;
    op_part found = {0};
    failure why = {TF_OK, ""};
    op_search all = {.url = asked->url,
                     .base = asked->raw_start,
                     .take = (size_t)asked->records,
                     .whole = true,
                     .verify = settings->verify,
                     .max_record_bytes = settings->max_record_bytes,
                     .size = (size_t)(asked->raw_stop - asked->raw_start),
                     .indexed = asked->sums.behind >= 0,
                     .sums = asked->sums};
    bool had = op_is_raw_local(asked->url, asked->codec, settings)
                   ? load_local(asked, &found.bytes, &why)
                   : op_python.read_block(asked, fetch, &found, &why);
    if (had && !settings->skip_corrupt) op_part_search(&found, &all, &why);
    pthread_mutex_lock(&lock);
    block->found = found;
    block->why = why;
    block->state = had ? LOADED : FAILED;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* The block, perhaps still to be loaded, with a reference for the caller. */
static op_lent *claim(const lent_wish *wish, int64_t taking, op_lent **unused) {
    op_lent *block = find(wish, unused);
    if (block == NULL) block = add(wish, unused);
    if (block == NULL) return NULL;
    block->refs++;
    block->used = now();
    block->left -= taking;
    if (block->left <= 0) forget(block, unused);
    return block;
}

/* With the lock, which is let go meanwhile. */
static void wait_loaded(op_lent *block, const op_block *asked) {
    while (block->state == BEGINNING) pthread_cond_wait(&changed, &lock);
    if (block->state == NEW || block->state == BEGUN) {
        void *fetch = block->fetch;
        block->fetch = NULL;
        block->state = LOADING;
        pthread_mutex_unlock(&lock);
        load(block, asked, fetch);
        pthread_mutex_lock(&lock);
    }
    while (block->state == LOADING) pthread_cond_wait(&changed, &lock);
}

op_lent *op_lent_take(const op_block *asked, int64_t taking, failure *why) {
    op_lent *unused = NULL;
    const lent_wish wish = wish_of(asked);
    pthread_mutex_lock(&lock);
    op_lent *block = claim(&wish, taking, &unused);
    if (block != NULL) wait_loaded(block, asked);
    bool had = block != NULL && block->state == LOADED;
    if (block != NULL && !had && is_listed(block))
        forget(block, &unused); /* the next to ask tries again */
    pthread_mutex_unlock(&lock);
    free_blocks(unused);
    if (had) return block;
    if (block == NULL) {
        fail(why, TF_RESOURCE_EXHAUSTED, "%s: out of memory", asked->url);
        return NULL;
    }
    *why = block->why;
    op_lent_release(block);
    return NULL;
}

void op_lent_forget(void) {
    op_lent *unused = NULL;
    pthread_mutex_lock(&lock);
    const time_t moment = now();
    for (op_lent *block = newest, *older; block != NULL; block = older) {
        older = block->older;
        if (block->version[0] == '\0' || moment - block->used >= LENT_SECONDS)
            forget(block, &unused);
    }
    pthread_mutex_unlock(&lock);
    free_blocks(unused);
}

void op_lent_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&changed, NULL);
    memset(buckets, 0, sizeof buckets);
    newest = oldest = NULL; /* lost: to free them would enter Python */
    kept = 0;
}

void op_lent_release(op_lent *block) {
    pthread_mutex_lock(&lock);
    op_lent *last = unref(block);
    pthread_mutex_unlock(&lock);
    if (last != NULL) {
        last->older = NULL;
        free_blocks(last);
    }
}

const op_part *op_lent_records(const op_lent *block) { return &block->found; }

const failure *op_lent_damage(const op_lent *block) { return &block->why; }
