/* Many threads read few objects through the block cache, while a host made of threads brings ranges
 * late, fails some, and gives all of a file up when it is closed. Every byte is compared. Made to run
 * under ASan and TSan, which Python and TensorFlow would drown in reports of their own. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/filesystem/cache.h"
#include "tensorflow/gate.h"
#include "tensorflow/filesystem/host.h"
#include "tensorflow/filesystem/files.h"
#include "tensorflow/abi.h"

enum { READERS = 16, FETCHERS = 6, OBJECTS = 5, QUEUE = 4096 };

static const uint64_t SIZES[OBJECTS] = {0, 1, 2 << 20, (9 << 20) + 17, 60 << 20};
static atomic_long reads, failures, fetched;
static atomic_bool stop, no_more; /* readers stop first, and then fetchers */

typedef struct {
    int object;
    atomic_int refs; /* the file, and each range on its way */
    atomic_bool closed;
} host_file;

typedef struct {
    host_file *file;
    fs_range *range;
} request;

static request queue[QUEUE];
static size_t first, last;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;

static unsigned char *contents[OBJECTS];

static void make_contents(void) {
    for (uint64_t object = 0; object < OBJECTS; object++) {
        contents[object] = malloc(SIZES[object] + 1);
        for (uint64_t i = 0; i < SIZES[object]; i++)
            contents[object][i] = (unsigned char)((i * 2654435761u + object * 97) >> 13);
    }
}

static void unref(host_file *file) {
    if (atomic_fetch_sub(&file->refs, 1) == 1) free(file);
}

static void bring(request asked, unsigned *seed) {
    const int luck = rand_r(seed) % 100;
    if (luck < 20) nanosleep(&(struct timespec){0, 500000}, NULL);
    if (atomic_load(&asked.file->closed)) {
        fs_range_fail(asked.range, TF_CANCELLED, "closed");
    } else if (luck < 3) {
        fs_range_fail(asked.range, TF_UNAVAILABLE, "bad luck");
    } else {
        const size_t size = fs_range_size(asked.range);
        const unsigned char *bytes = contents[asked.file->object] + fs_range_start(asked.range);
        fs_range_fill(asked.range, bytes, luck == 4 ? size - 1 : size);
        atomic_fetch_add(&fetched, 1);
    }
    unref(asked.file);
}

static void *fetcher(void *number) {
    unsigned seed = (unsigned)(uintptr_t)number;
    for (;;) {
        pthread_mutex_lock(&queue_lock);
        while (first == last && !atomic_load(&no_more)) pthread_cond_wait(&queued, &queue_lock);
        const bool done = first == last;
        const request asked = done ? (request){0} : queue[first++ % QUEUE];
        pthread_mutex_unlock(&queue_lock);
        if (done) return NULL;
        bring(asked, &seed);
    }
}

/* ---- the host ---- */

void *host_release_gil(void) { return NULL; }
void host_restore_gil(void *released) { (void)released; }

void *host_open_reader(const char *path, fs_snapshot *snapshot, failure *error) {
    (void)error;
    host_file *file = calloc(1, sizeof *file);
    file->object = atoi(path);
    atomic_init(&file->refs, 1);
    snapshot->size = SIZES[file->object];
    snapshot->version = file->object % 2 ? strdup(path) : NULL; /* every other one is private */
    return file;
}

void host_look_again(void *file, fs_snapshot *snapshot, failure *error) {
    (void)error;
    const int object = ((host_file *)file)->object;
    char path[16];
    snprintf(path, sizeof path, "%d", object);
    snapshot->size = SIZES[object];
    snapshot->version = object % 2 ? strdup(path) : NULL;
}

void host_close_reader(void *file) {
    atomic_store(&((host_file *)file)->closed, true);
    unref(file);
}

void host_fetch(void *file, fs_range **ranges, size_t count, size_t request_bytes) {
    (void)request_bytes;
    pthread_mutex_lock(&queue_lock);
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&((host_file *)file)->refs, 1);
        if (last - first == QUEUE) abort();
        queue[last++ % QUEUE] = (request){file, ranges[i]};
    }
    pthread_cond_broadcast(&queued);
    pthread_mutex_unlock(&queue_lock);
}

/* ---- readers ---- */

static void check(int object, uint64_t offset, size_t n, const char *buffer, int64_t got) {
    const uint64_t size = SIZES[object], left = offset < size ? size - offset : 0;
    const size_t want = left < n ? (size_t)left : n;
    if ((size_t)got == want && (!want || !memcmp(buffer, contents[object] + offset, want))) return;
    fprintf(stderr, "object %d [%llu, +%zu): wrong\n", object, (unsigned long long)offset, n);
    abort();
}

static void read_once(fs_reader *reader, int object, uint64_t *at, unsigned *seed, char *buffer) {
    static const size_t LENGTHS[] = {12, 4096, 256 << 10, 3 << 20, 24 << 20};
    const size_t n = LENGTHS[rand_r(seed) % (rand_r(seed) % 10 ? 4 : 5)];
    if (rand_r(seed) % 4 == 0) *at = SIZES[object] ? (uint64_t)rand_r(seed) % SIZES[object] : 0;
    failure error = {0};
    const int64_t got = fs_reader_read(reader, *at, n, buffer, &error);
    atomic_fetch_add(got < 0 ? &failures : &reads, 1);
    if (got >= 0) check(object, *at, n, buffer, got);
    if (got >= 0) *at += (uint64_t)got;
    error.code = TF_OK;
}

static void *reading(void *number) {
    unsigned seed = 1000 + (unsigned)(uintptr_t)number;
    char *buffer = malloc(24 << 20);
    while (!atomic_load(&stop)) {
        const int object = rand_r(&seed) % OBJECTS;
        char path[16];
        snprintf(path, sizeof path, "%d", object);
        failure error = {0};
        fs_reader *reader = fs_reader_open(path, &error);
        uint64_t at = 0;
        for (int i = rand_r(&seed) % 20; i > 0 && !atomic_load(&stop); i--)
            read_once(reader, object, &at, &seed, buffer);
        fs_reader_close(reader);
    }
    free(buffer);
    return NULL;
}

/* A store may claim any size, and none may make the cache read what is not there. */
static void refuse_impossible_sizes(void) {
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - FS_BLOCK_BYTES, (uint64_t)INT64_MAX + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (fs_object_open(NULL, sizes[i])) abort();
    fs_object *object = fs_object_open(NULL, FS_BLOCK_BYTES);
    bool mine;
    if (fs_block_find(object, 1) || fs_block_find(object, UINT64_MAX)) abort();
    if (fs_block_claim(object, 1, false, &mine) || fs_block_claim(object, 1, true, &mine)) abort();
    fs_object_close(object);
}

int main(int argc, char **argv) {
    const int seconds = argc > 1 ? atoi(argv[1]) : 5;
    refuse_impossible_sizes();
    make_contents();
    pthread_t fetchers[FETCHERS], readers[READERS];
    fs_cache_set_budget(24 << 20);
    for (uintptr_t i = 0; i < FETCHERS; i++) pthread_create(&fetchers[i], NULL, fetcher, (void *)i);
    for (uintptr_t i = 0; i < READERS; i++) pthread_create(&readers[i], NULL, reading, (void *)i);
    for (int i = 0; i < seconds * 10; i++) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        if (i % 7 == 0) fs_cache_clear();
        if (i % 13 == 0) fs_cache_abandon(TF_UNAVAILABLE, "given up");
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
    pthread_mutex_lock(&queue_lock);
    atomic_store(&no_more, true); /* not before: nobody would bring what the last reads ask for */
    pthread_cond_broadcast(&queued);
    pthread_mutex_unlock(&queue_lock);
    for (int i = 0; i < FETCHERS; i++) pthread_join(fetchers[i], NULL);
    fs_cache_clear();
    for (int i = 0; i < OBJECTS; i++) free(contents[i]);
    printf("%ld reads, %ld failed as they should, %ld ranges, %zu bytes still held\n",
           atomic_load(&reads), atomic_load(&failures), atomic_load(&fetched), fs_cache_used());
    return fs_cache_used() != 0 || atomic_load(&reads) == 0;
}
