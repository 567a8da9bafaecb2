#define _GNU_SOURCE /* preadv2 */
#include "tfrecord/tfrecord_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/magic.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#endif

#ifndef WINDOW /* fuzzing builds this with small ones */
#define WINDOW ((size_t)256 << 10)
#define LONG ((size_t)4 << 10) /* from here on a header of its own costs less than its record */
#endif

#ifdef __linux__
/* Flags of preadv2 that read only what is in memory. */
static int flags_for_cached(int descriptor) {
    struct statfs filesystem;
    /* tmpfs is memory, and knows no RWF_NOWAIT */
    bool memory = fstatfs(descriptor, &filesystem) == 0 && filesystem.f_type == TMPFS_MAGIC;
    return memory ? 0 : RWF_NOWAIT;
}

static bool read_cached_header(int descriptor, int flags, uint8_t *header, size_t offset) {
    struct iovec place = {header, TFRECORD_HEADER};
    return preadv2(descriptor, &place, 1, (off_t)offset, flags) == TFRECORD_HEADER;
}
#else
static int flags_for_cached(int descriptor) {
    (void)descriptor;
    return 0;
}

static bool read_cached_header(int descriptor, int flags, uint8_t *header, size_t offset) {
    (void)descriptor, (void)flags, (void)header, (void)offset;
    return false;
}
#endif

/* Reads until `size` bytes are there or the file ends. Returns 0, or an errno. */
static int read_window(int descriptor, uint8_t *window, size_t size, size_t offset, size_t *got) {
    *got = 0;
    while (*got < size) {
        ssize_t n = pread(descriptor, window + *got, size - *got, (off_t)(offset + *got));
        if (n < 0 && errno != EINTR) return errno;
        if (n == 0) break;
        if (n > 0) *got += (size_t)n;
    }
    return 0;
}

int tfrecord_walk_file(tfrecord_cursor *cursor, int descriptor, size_t size, uint64_t limit,
                       int64_t *frames, size_t capacity) {
    uint8_t *window = malloc(WINDOW);
    size_t at = cursor->offset, count = 0;
    tfrecord_cursor step = {0};
    bool sparse = false;
    int error = window == NULL ? ENOMEM : 0, flags = flags_for_cached(descriptor);
    while (error == 0 && at < size && count < capacity) {
        size_t left = size - at, got = TFRECORD_HEADER;
        if (!sparse || left < TFRECORD_HEADER || !read_cached_header(descriptor, flags, window, at))
            error = read_window(descriptor, window, left < WINDOW ? left : WINDOW, at, &got);
        step = (tfrecord_cursor){0};
        if (error == 0) tfrecord_walk(&step, window, got, limit, frames + count, capacity - count);
        for (size_t i = 0; i < step.count; i++) frames[count + i] += (int64_t)at;
        at += step.offset;
        count += step.count;
        if (step.count == 0) break; /* damage, or the end inside a header */
        sparse = step.offset / step.count >= LONG;
    }
    free(window);
    *cursor = (tfrecord_cursor){.offset = at,
                                .count = count,
                                .fault = step.fault,
                                .need = at < size ? step.need : 0};
    return error;
}
