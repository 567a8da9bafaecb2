#define _GNU_SOURCE      /* syscall */
#define _DARWIN_C_SOURCE /* st_mtimespec */
#include "tfrecord/tfrecord_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#endif

#include "crc32c/crc32c.h"
#include "tasks/clock.h"
#include "tasks/tasks.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

#ifndef WINDOW /* fuzzing builds this with small ones */
#define WINDOW ((size_t)256 << 10)
#define LONG ((size_t)4 << 10) /* from here on a header of its own costs less than its record */
#endif
#define PIECE ((size_t)128 << 10)   /* stays in the cache until its CRC is taken */
#define SCANNED ((size_t)256 << 10) /* stays in the cache until it is scanned */
#define AHEAD ((off_t)8 << 20)      /* is asked of a disk when a record is not in memory */

#ifdef __linux__
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

/* preadv2, asked of the kernel: the C libraries of glibc 2.17 and musl 1.2.0, which wheels are for,
 * do not have it. */
static ssize_t read_cached(int descriptor, const struct iovec *places, int count, size_t offset,
                           int flags) {
    return syscall(SYS_preadv2, descriptor, places, count, (long)offset,
                   (long)((uint64_t)offset >> 32), flags);
}

/* Flags of preadv2 that read only what is in memory. */
static int flags_for_cached(int descriptor) {
    struct statfs filesystem;
    /* tmpfs is memory, and knows no RWF_NOWAIT */
    bool memory = fstatfs(descriptor, &filesystem) == 0 && filesystem.f_type == TMPFS_MAGIC;
    return memory ? 0 : RWF_NOWAIT;
}

static bool read_few_cached(int descriptor, int flags, uint8_t *into, size_t size, size_t offset) {
    struct iovec place = {into, size};
    return read_cached(descriptor, &place, 1, offset, flags) == (ssize_t)size;
}
#else
static int flags_for_cached(int descriptor) {
    (void)descriptor;
    return 0;
}

static bool read_few_cached(int descriptor, int flags, uint8_t *into, size_t size, size_t offset) {
    (void)descriptor, (void)flags, (void)into, (void)size, (void)offset;
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
                       int64_t *frames, int64_t *sums, size_t capacity) {
    uint8_t *window = malloc(TFRECORD_FOOTER + WINDOW), *header = window + TFRECORD_FOOTER;
    size_t at = cursor->offset, count = 0, got = 0;
    size_t behind = 0; /* bytes before `at` that are not in the sum yet: the last record's footer */
    uint32_t sum = cursor->sum;
    tfrecord_cursor step = {0};
    bool sparse = false;
    int error = window == NULL ? ENOMEM : 0, flags = flags_for_cached(descriptor);
    while (error == 0 && at < size && count < capacity) {
        size_t left = size - at, wanted = behind + TFRECORD_HEADER;
        got = wanted;
        if (!sparse || left < TFRECORD_HEADER ||
            !read_few_cached(descriptor, flags, header - behind, wanted, at - behind)) {
            wanted = behind + (left < WINDOW ? left : WINDOW);
            error = read_window(descriptor, header - behind, wanted, at - behind, &got);
        }
        got -= got < behind ? got : behind;
        step = (tfrecord_cursor){0};
        if (error == 0) tfrecord_walk(&step, header, got, limit, frames + count, capacity - count);
        for (size_t i = 0; i < step.count; i++) {
            int64_t *frame = frames + count + i;
            if (i > 0 || behind > 0)
                sum = crc32c_extend(sum, header + *frame - TFRECORD_FOOTER, TFRECORD_FOOTER);
            sums[count + i] = sum;
            *frame += (int64_t)at;
        }
        at += step.offset;
        count += step.count;
        if (step.count == 0) break; /* damage, or the end inside a header */
        behind = TFRECORD_FOOTER;
        sparse = step.offset / step.count >= LONG;
    }
    if (error == 0 && behind > 0 && at <= size) {
        error = read_window(descriptor, window, TFRECORD_FOOTER, at - TFRECORD_FOOTER, &got);
        if (got == TFRECORD_FOOTER) sum = crc32c_extend(sum, window, TFRECORD_FOOTER);
    }
    free(window);
    *cursor = (tfrecord_cursor){.offset = at,
                                .count = count,
                                .fault = step.fault,
                                .need = at < size ? step.need : 0,
                                .sum = sum};
    return error;
}

/* A run of memory for data, and one for what is behind it. */
typedef struct {
    uint8_t *data;
    size_t size;
    uint8_t *tail;
    size_t tail_size;
} pair;

#ifdef __linux__
/* What is in memory comes by one call. Returns the bytes that came. */
static size_t read_pair_cached(int descriptor, int flags, pair into, size_t offset) {
    struct iovec places[2] = {{into.data, into.size}, {into.tail, into.tail_size}};
    ssize_t n = read_cached(descriptor, places, 2, offset, flags);
    return n > 0 ? (size_t)n : 0;
}

static void read_ahead(int descriptor, size_t offset) {
    (void)posix_fadvise(descriptor, (off_t)offset, AHEAD, POSIX_FADV_WILLNEED);
}
#else
static size_t read_pair_cached(int descriptor, int flags, pair into, size_t offset) {
    (void)descriptor, (void)flags, (void)into, (void)offset;
    return 0;
}

static void read_ahead(int descriptor, size_t offset) { (void)descriptor, (void)offset; }
#endif

static int read_pair(int descriptor, int flags, pair into, size_t offset, size_t *got) {
    size_t more = 0;
    int error = 0;
    *got = read_pair_cached(descriptor, flags, into, offset);
    if (*got == into.size + into.tail_size) return 0;
    read_ahead(descriptor, offset + *got);
    if (*got < into.size) {
        error = read_window(descriptor, into.data + *got, into.size - *got, offset + *got, &more);
        *got += more;
    }
    if (error != 0 || *got < into.size) return error;
    size_t done = *got - into.size;
    error = read_window(descriptor, into.tail + done, into.tail_size - done, offset + *got, &more);
    *got += more;
    return error;
}

int tfrecord_read_data(int descriptor, uint8_t *data, size_t size, uint8_t *tail, size_t tail_size,
                       size_t offset, uint32_t *crc, size_t *got) {
    int error = 0, flags = flags_for_cached(descriptor);
    uint32_t state = 0;
    size_t done = 0, more = 0;
    do {
        size_t left = size - done, piece = left > PIECE + PIECE / 2 ? PIECE : left;
        pair into = {data + done, piece, tail, piece == left ? tail_size : 0};
        error = read_pair(descriptor, flags, into, offset + done, &more);
        done += more;
        if (error != 0 || more < piece) break;
        if (crc != NULL) state = crc32c_extend(state, into.data, piece);
    } while (done < size);
    if (crc != NULL) *crc = crc32c_mask(state);
    *got = done;
    return error;
}

int tfrecord_open(const char *path, tfrecord_opened *file) {
    struct stat status;
    /* O_NONBLOCK: a FIFO would wait for somebody who writes into it */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0) return errno;
    if (fstat(file->descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
        file->inode = (uint64_t)status.st_ino;
        file->changed =
            (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec;
        file->size = (uint64_t)status.st_size;
        return 0;
    }
    close(file->descriptor);
    return EINVAL;
}

/* Reads the next piece of a span: as much as stays in the cache, and more where a record is longer,
 * which is scanned when all of it is there. Returns 0, or an errno. */
static int read_piece(const tfrecord_span *span, int flags, uint8_t *data, size_t wanted,
                      size_t *done) {
    size_t left = span->size - *done, got = 0;
    size_t piece = wanted > *done + SCANNED ? wanted - *done : SCANNED;
    if (piece > left || left - piece < SCANNED / 2) piece = left;
    if (read_few_cached(span->descriptor, flags, data + *done, piece, span->offset + *done)) {
        *done += piece;
        return 0;
    }
    if (span->cached) return EAGAIN;
    task_blocks();
    read_ahead(span->descriptor, span->offset + *done);
    int error = read_window(span->descriptor, data + *done, piece, span->offset + *done, &got);
    task_goes_on();
    *done += got;
    return error == 0 && got < piece ? ENODATA : error;
}

int tfrecord_scan_file(tfrecord_cursor *cursor, tfrecord_span *span, uint8_t *data, size_t *done,
                       int64_t *offsets, int64_t *lengths, size_t capacity) {
    const int flags = flags_for_cached(span->descriptor);
    uint64_t patience = 16 * SCANNED;
    size_t count = 0;
    int error = 0;
    bool lost = false;
    uint64_t last = nanoseconds(), now = 0;
    cursor->need = 0;
    cursor->fault = TFRECORD_OK;
    for (;;) {
        if (span->find && *done > 0) {
            bool found = false;
            cursor->offset = tfrecord_find(data, *done, 0, span->limit, false, &patience, &found);
            /* a header may be of a record that is not all there yet */
            lost = !found && *done - cursor->offset < TFRECORD_HEADER;
            span->find = false;
        }
        if (!span->find && !lost) {
            tfrecord_scan(cursor, data, *done, span->limit, span->verify, offsets + count,
                          lengths + count, capacity - count);
            count += cursor->count;
        }
        now = nanoseconds();
        span->scan_ns += now - last;
        if (cursor->fault != TFRECORD_OK || count == capacity || *done == span->size) break;
        error = read_piece(span, flags, data, cursor->offset + (size_t)cursor->need, done);
        last = nanoseconds();
        span->read_ns += last - now;
        if (error != 0) break;
    }
    cursor->count = count;
    return error;
}
