#define _POSIX_C_SOURCE 200809L /* strerror_r, as POSIX has it; pread */
#define _DARWIN_C_SOURCE        /* st_mtimespec */
#include "tensorflow/ops/chunk.h"

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

#include "memory/pool.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

void (*chunk_return_lent)(void *lender);

bool chunk_take(chunk *bytes, size_t size, failure *why) {
    *bytes = (chunk){0};
    bytes->memory = pool_take(size > 0 ? size : 1, &bytes->capacity);
    if (bytes->memory == NULL)
        return fail(why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for %zu bytes", size);
    bytes->data = bytes->memory;
    bytes->size = size;
    return true;
}

void chunk_release(chunk *bytes) {
    if (bytes->memory != NULL) pool_give(bytes->memory, bytes->capacity);
    if (bytes->lender != NULL) chunk_return_lent(bytes->lender);
    *bytes = (chunk){0};
}

const char *local_path(const char *url) {
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
static void set_version(local_file *file, const struct stat *status) {
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
        local_file file = {0};
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

bool local_open(local_file *file, const char *url, const char *version, failure *why) {
    struct stat status;
    file->url = url;
    file->descriptor = open(local_path(url), READING);
    if (file->descriptor < 0 && errno == ENOENT && version[0] != '\0') {
        file->descriptor = open_elsewhere(local_path(url), version);
        if (file->descriptor < 0) return fail_replaced(why, url);
    }
    if (file->descriptor < 0) return fail_errno(why, url, errno);
    int error = fstat(file->descriptor, &status) != 0 ? errno
                : S_ISDIR(status.st_mode)             ? EISDIR
                : S_ISFIFO(status.st_mode)            ? EINVAL
                                                      : 0;
    if (error != 0) {
        local_close(file);
        return fail_errno(why, url, error);
    }
    file->size = (uint64_t)status.st_size;
    set_version(file, &status);
    if (version[0] == '\0' || strcmp(version, file->version) == 0) return true;
    local_close(file);
    return fail_replaced(why, url);
}

bool local_unchanged(const local_file *file, failure *why) {
    struct stat status;
    local_file now = *file;
    if (fstat(file->descriptor, &status) != 0) return fail_errno(why, file->url, errno);
    now.size = (uint64_t)status.st_size;
    set_version(&now, &status);
    return strcmp(now.version, file->version) == 0 || fail_replaced(why, file->url);
}

void local_close(local_file *file) { close(file->descriptor); }

bool local_read(const local_file *file, uint64_t start, uint64_t stop, chunk *bytes, failure *why) {
    if (stop > file->size) stop = file->size;
    if (!chunk_take(bytes, start < stop ? (size_t)(stop - start) : 0, why)) return false;
    size_t done = 0;
    while (done < bytes->size) {
        ssize_t got = pread(file->descriptor, (uint8_t *)bytes->memory + done, bytes->size - done,
                            (off_t)(start + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int number = errno;
            chunk_release(bytes);
            return fail_errno(why, file->url, number);
        }
        if (got == 0) {
            chunk_release(bytes);
            return fail(why, TF_DATA_LOSS,
                        "%s: ends at byte %" PRIu64 ", and had %" PRIu64
                        " bytes when it was opened: it was cut meanwhile",
                        file->url, start + done, file->size);
        }
        done += (size_t)got;
    }
    return true;
}
