#define _POSIX_C_SOURCE 200809L /* strerror_r, as POSIX has it; pread */
#define _DARWIN_C_SOURCE        /* st_mtimespec */
#include "tensorflow/ops/op_records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c/crc32c.h"
#include "memory/pool.h"
#include "tfrecord/tfrecord.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

void (*op_return_lent)(void *lender);
const char *op_reasons[OP_REASONS] = {"cut", "damaged length", "damaged data"};

bool op_chunk_take(op_chunk *bytes, size_t size, failure *why) {
    *bytes = (op_chunk){0};
    bytes->memory = pool_take(size > 0 ? size : 1, &bytes->capacity);
    if (bytes->memory == NULL)
        return fail(why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for %zu bytes", size);
    bytes->data = bytes->memory;
    bytes->size = size;
    return true;
}

void op_chunk_release(op_chunk *bytes) {
    if (bytes->memory != NULL) pool_give(bytes->memory, bytes->capacity);
    if (bytes->lender != NULL) op_return_lent(bytes->lender);
    *bytes = (op_chunk){0};
}

const char *op_local_path(const char *url) {
    static const char scheme[] = "file:///";
    if (strncmp(url, scheme, sizeof scheme - 1) == 0)
        url += sizeof scheme - 2; /* keeps the path's own slash */
    return strstr(url, "://") != NULL || strstr(url, "::") != NULL ? NULL : url;
}

static bool fail_errno(failure *why, const char *url, int number) {
    TF_Code code = TF_UNKNOWN;
    if (number == ENOENT || number == ENOTDIR)
        code = TF_NOT_FOUND;
    else if (number == EACCES || number == EPERM)
        code = TF_PERMISSION_DENIED;
    else if (number == EISDIR)
        code = TF_FAILED_PRECONDITION;
    else if (number == EMFILE || number == ENFILE || number == ENOMEM)
        code = TF_RESOURCE_EXHAUSTED;
    char text[128] = "";
    if (strerror_r(number, text, sizeof text) != 0) snprintf(text, sizeof text, "error %d", number);
    return fail(why, code, "%s: %s", url, text);
}

static bool fail_replaced(failure *why, const char *url) {
    return fail(why, TF_FAILED_PRECONDITION,
                "%s: was replaced while it was being read; make the dataset again to read what is "
                "there now",
                url);
}

/* As `described` in tfio_store/storage/local.py does. */
static void set_version(op_file *file, const struct stat *status) {
    const uint64_t changed =
        (uint64_t)status->st_mtim.tv_sec * 1000000000u + (uint64_t)status->st_mtim.tv_nsec;
    snprintf(file->version, sizeof file->version, "%" PRIx64 "-%" PRIx64 "-%" PRIx64,
             (uint64_t)status->st_ino, changed, (uint64_t)status->st_size);
}

/* O_NONBLOCK: a FIFO would wait for somebody who writes into it */
enum { READING = O_RDONLY | O_CLOEXEC | O_NONBLOCK };

/* Opens the file of this version, which had this path once, by the name that it has in the same
 * folder now: a file keeps its version when it gets another name. Negative where there is none. */
static int open_elsewhere(const char *path, const char *version) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash + 1 - path);
    if (length >= sizeof folder) return -1;
    memcpy(folder, path, length);
    folder[length] = '\0';
    DIR *names = opendir(length == 0 ? "." : folder);
    if (names == NULL) return -1;
    const ino_t inode = (ino_t)strtoull(version, NULL, 16);
    int found = -1;
    for (const struct dirent *entry; found < 0 && (entry = readdir(names)) != NULL;) {
        if (entry->d_ino != inode) continue;
        op_file file = {0};
        struct stat status;
        found = openat(dirfd(names), entry->d_name, READING);
        if (found < 0) continue;
        if (fstat(found, &status) == 0) set_version(&file, &status);
        if (strcmp(file.version, version) == 0) continue;
        close(found);
        found = -1;
    }
    closedir(names);
    return found;
}

bool op_file_open(op_file *file, const char *url, const char *version, failure *why) {
    struct stat status;
    file->url = url;
    file->descriptor = open(op_local_path(url), READING);
    if (file->descriptor < 0 && errno == ENOENT && version[0] != '\0') {
        file->descriptor = open_elsewhere(op_local_path(url), version);
        if (file->descriptor < 0) return fail_replaced(why, url);
    }
    if (file->descriptor < 0) return fail_errno(why, url, errno);
    int error = fstat(file->descriptor, &status) != 0 ? errno
                : S_ISDIR(status.st_mode)             ? EISDIR
                : S_ISFIFO(status.st_mode)            ? EINVAL
                                                      : 0;
    if (error != 0) {
        op_file_close(file);
        return fail_errno(why, url, error);
    }
    file->size = (uint64_t)status.st_size;
    set_version(file, &status);
    if (version[0] == '\0' || strcmp(version, file->version) == 0) return true;
    op_file_close(file);
    return fail_replaced(why, url);
}

bool op_file_unchanged(const op_file *file, failure *why) {
    struct stat status;
    op_file call = *file;
    if (fstat(file->descriptor, &status) != 0) return fail_errno(why, file->url, errno);
    call.size = (uint64_t)status.st_size;
    set_version(&call, &status);
    return strcmp(call.version, file->version) == 0 || fail_replaced(why, file->url);
}

void op_file_close(op_file *file) { close(file->descriptor); }

bool op_file_read(const op_file *file, uint64_t start, uint64_t stop, op_chunk *bytes,
                  failure *why) {
    if (stop > file->size) stop = file->size;
    if (!op_chunk_take(bytes, start < stop ? (size_t)(stop - start) : 0, why)) return false;
    size_t done = 0;
    while (done < bytes->size) {
        ssize_t got = pread(file->descriptor, (uint8_t *)bytes->memory + done, bytes->size - done,
                            (off_t)(start + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int number = errno;
            op_chunk_release(bytes);
            return fail_errno(why, file->url, number);
        }
        if (got == 0) {
            op_chunk_release(bytes);
            return fail(why, TF_DATA_LOSS,
                        "%s: ends at byte %" PRIu64 ", and had %" PRIu64
                        " bytes when it was opened: it was cut meanwhile",
                        file->url, start + done, file->size);
        }
        done += (size_t)got;
    }
    return true;
}

/* --- a part ----------------------------------------------------------------------------------- */

static bool fail_fault(failure *why, const op_search *wanted, const tfrecord_cursor *at) {
    int64_t offset = wanted->base + (int64_t)at->offset;
    if (at->fault == TFRECORD_TOO_LARGE)
        return fail(why, TF_RESOURCE_EXHAUSTED,
                    "%s: the record at offset %" PRId64 " claims %" PRIu64
                    " bytes, over the limit of %" PRIu64
                    "; pass a larger max_record_bytes= if it is real",
                    wanted->url, offset, at->need, wanted->max_record_bytes);
    return fail(why, TF_DATA_LOSS, "%s: %s (offset %" PRId64 ")", wanted->url,
                op_reasons[at->fault], offset);
}

static bool is_known(const op_search *wanted) { return wanted->whole && wanted->sums.behind >= 0; }

/* Whether a block of so many bytes holds the records that its index tells of. `cut`: it ends inside one. */
static bool is_as_told(const tfrecord_cursor *at, const op_search *wanted, size_t size, bool cut,
                       failure *why) {
    if (!is_known(wanted) && !cut) return true;
    if (size < wanted->size)
        return fail(
            why, TF_DATA_LOSS,
            "%s: the data ends inside a block: %zu of its bytes are missing (offset %" PRId64 ")",
            wanted->url, wanted->size - size, wanted->base + (int64_t)size);
    /* What ends inside a record, by a header that holds, are other records too. */
    if (!cut && (int64_t)at->sum == wanted->sums.behind) return true;
    return fail(why, TF_FAILED_PRECONDITION,
                "%s: does not hold the records that its index tells of (block at offset %" PRId64
                "): this file or its manifest was replaced; make the dataset again to read what is "
                "there now",
                wanted->url, wanted->base);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static bool make_table(op_part *found, size_t capacity, failure *why) {
    if (!op_chunk_take(&found->table, 2 * capacity * sizeof(int64_t), why)) return false;
    found->offsets = found->table.memory;
    found->lengths = found->offsets + capacity;
    return true;
}

bool op_part_search(op_part *found, const op_search *wanted, failure *why) {
    const op_chunk *bytes = &found->bytes;
    /* No more fit, whatever anybody claims; and one, so that bytes too few for any are looked at. */
    size_t possible = bytes->size / TFRECORD_OVERHEAD + 1;
    size_t skip = least(wanted->skip, possible), take = least(wanted->take, possible);
    if (!make_table(found, skip > take ? skip : take, why)) return false;
    tfrecord_cursor at = {.sum = (uint32_t)wanted->sums.before};
    if (skip > 0) {
        tfrecord_scan(&at, bytes->data, bytes->size, wanted->max_record_bytes, false,
                      found->offsets, found->lengths, skip);
        if (at.fault != TFRECORD_OK) return fail_fault(why, wanted, &at);
    }
    const bool passed = at.count == skip;
    if (passed)
        tfrecord_scan(&at, bytes->data, bytes->size, wanted->max_record_bytes, wanted->verify,
                      found->offsets, found->lengths, take);
    /* As many records in fewer bytes are those of another shard. Fewer are what is left of a file
     * that was cut off, and are given before the error. */
    const bool others = is_known(wanted) && bytes->size < wanted->size && at.count == wanted->take;
    found->count = passed && !others ? at.count : 0;
    found->end = at.offset;
    const bool cut = wanted->whole && at.need > 0;
    if (at.fault != TFRECORD_OK || (cut && !(wanted->indexed && bytes->size >= wanted->size)))
        return fail_fault(why, wanted, &at);
    if (is_as_told(&at, wanted, bytes->size, cut, why)) return true;
    if (bytes->size >= wanted->size) found->count = 0;
    return false;
}

void op_part_release(op_part *found) {
    op_chunk_release(&found->bytes);
    op_chunk_release(&found->table);
    found->count = 0;
}

/* --- lists of records ------------------------------------------------------------------------- */

struct op_records {
    size_t count, capacity;
    ex_bytes records[];
};

op_records *op_records_new(size_t records, failure *why) {
    bool possible = records <= SIZE_MAX / 2 / sizeof(ex_bytes);
    op_records *list = possible ? malloc(sizeof *list + records * sizeof(ex_bytes)) : NULL;
    if (list == NULL) {
        fail(why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for %zu records", records);
        return NULL;
    }
    list->count = 0;
    list->capacity = records;
    return list;
}

bool op_records_add(op_records *list, const op_part *found, failure *why) {
    if (found->count > list->capacity - list->count)
        return fail(why, TF_INTERNAL, "more records came than were announced");
    const uint8_t *bytes = found->bytes.data;
    for (size_t i = 0; i < found->count; i++)
        list->records[list->count++] =
            (ex_bytes){bytes + found->offsets[i], (size_t)found->lengths[i]};
    return true;
}

bool op_records_put(op_records *list, ex_bytes record) {
    if (list->count == list->capacity) return false;
    list->records[list->count++] = record;
    return true;
}

/* SplitMix64 */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void op_records_shuffle(op_records *list, uint64_t seed) {
    /* Fisher and Yates. The top 32 bits times n, over 2^32, is a number below n. */
    for (size_t left = list->count; left > 1; left--) {
        size_t other = (size_t)((next_random(&seed) >> 32) * left >> 32);
        ex_bytes moved = list->records[left - 1];
        list->records[left - 1] = list->records[other];
        list->records[other] = moved;
    }
}

size_t op_records_count(const op_records *list) { return list->count; }

const ex_bytes *op_records_all(const op_records *list) { return list->records; }

void op_part_copy(const op_part *found, TF_TString *strings) {
    for (size_t i = 0; i < found->count; i++)
        tf.StringCopy(&strings[i], (const char *)found->bytes.data + found->offsets[i],
                      (size_t)found->lengths[i]);
}

void op_strings_copy(const ex_bytes *bytes, size_t count, TF_TString *strings) {
    for (size_t i = 0; i < count; i++) {
        if (i + STRINGS_AHEAD < count) __builtin_prefetch(bytes[i + STRINGS_AHEAD].data);
        tf.StringCopy(&strings[i], (const char *)bytes[i].data, bytes[i].size);
    }
}

void op_records_delete(op_records *list) { free(list); }
