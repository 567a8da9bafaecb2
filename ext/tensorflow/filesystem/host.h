/* What the plugin asks of Python. _filesystem.pxi implements it. Call it between gate_enter and
 * gate_leave; each function takes the GIL itself. Paths are whole URLs, NUL-terminated UTF-8. The
 * outcome of every function is in *error: code 0 is success. */
#ifndef TFIO_STORE_FS_HOST_H
#define TFIO_STORE_FS_HOST_H

#include "tensorflow/filesystem/cache.h"

/* What a file is now. Equal versions have equal bytes. `version` is malloc'ed, or NULL if the store
 * does not say. */
typedef struct {
    uint64_t size;
    char *version;
} fs_snapshot;

typedef struct {
    int64_t size;
    int64_t mtime_ns;
    int is_directory;
} fs_stat;

/* Operations of one path, or two, without an answer. */
typedef enum {
    FS_EXISTS,
    FS_IS_DIRECTORY,
    FS_CREATE_DIRECTORY,
    FS_CREATE_DIRECTORIES,
    FS_DELETE_FILE,
    FS_DELETE_DIRECTORY,
    FS_DELETE_TREE,
    FS_RENAME,
    FS_COPY,
} fs_operation;

void host_run(fs_operation operation, const char *path, const char *target, failure *error);
void host_stat(const char *path, fs_stat *stat, failure *error);

/* The names below a folder, or the paths that match. *names is malloc'ed, and so is each of them. */
int host_children(const char *path, char ***names, failure *error);
int host_glob(const char *pattern, char ***names, failure *error);

/* A file to read from. The answer is released by host_close_reader. */
void *host_open_reader(const char *path, fs_snapshot *snapshot, failure *error);
void host_look_again(void *file, fs_snapshot *snapshot, failure *error);
void host_close_reader(void *file);

/* Begins to fetch these ranges, all at once, and sees to it that each is filled or failed. Ranges that
 * follow one another share a request of up to `request` bytes. */
void host_fetch(void *file, fs_range **ranges, size_t count, size_t request);

/* A file to write. host_release_writer releases it, with what was not yet written. If host_finish was
 * not called, it has the file finished, and waits for nothing. */
void *host_open_writer(const char *path, int append, uint64_t *position, failure *error);
void host_write(void *file, const char *bytes, size_t size, failure *error);
void host_sync(void *file, failure *error);
void host_finish(void *file, const char *data, size_t size, failure *error);
void host_release_writer(void *file, const char *data, size_t size);

/* Lets go of the GIL if this thread has it: some of TensorFlow's functions call the filesystem with the
 * GIL held, for example a CheckpointReader, and bytes arrive by way of Python. So whoever waits for them
 * must not keep it. */
void *host_release_gil(void);

/* Takes back what host_release_gil let go. */
void host_restore_gil(void *released);

#endif
