/* The plugin that TensorFlow's loader finds in this extension: tables of C functions. Each calls one
 * of ours, and turns its outcome into a TF_Status. */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include "tensorflow/filesystem/filesystem.h"

#include <stdlib.h>
#include <string.h>

#include "tensorflow/filesystem/files.h"
#include "tensorflow/filesystem/host.h"
#include "tensorflow/gate.h"

/* ---- URLs in one form: `s3://b//x/./y/../z/` and `s3://b/x/z` are the same file ---- */

static bool is_segment(const char *at, size_t length, const char *what) {
    return length == strlen(what) && memcmp(at, what, length) == 0;
}

/* Drops the last segment of [root, end) and the slash before it. */
static char *parent(char *root, char *end) {
    while (end > root && end[-1] != '/') end--;
    return end > root ? end - 1 : root;
}

/* The URL without empty, `.` and `..` segments after its scheme, and without a slash at the end.
 * It is malloc'ed. NULL if there is no memory. */
static char *clean_path(const char *url) {
    char *clean = malloc(strlen(url) + 1);
    if (!clean) return NULL;
    const char *separator = strstr(url, "://");
    const size_t scheme = separator ? (size_t)(separator - url) + 3 : 0;
    memcpy(clean, url, scheme);
    /* memory:///x and hdfs:///x have no authority: their leading slash stays */
    char *root = clean + scheme, *end = root;
    if (url[scheme] == '/') *end++ = '/', root++;
    for (const char *at = url + scheme; *at;) {
        const size_t length = strcspn(at, "/");
        if (is_segment(at, length, "..")) {
            end = parent(root, end);
        } else if (length && !is_segment(at, length, ".")) {
            if (end > root) *end++ = '/';
            memcpy(end, at, length);
            end += length;
        }
        at += length + (at[length] == '/');
    }
    *end = '\0';
    return clean;
}

/* ---- outcomes ---- */

static void report(failure *error, TF_Status *status) {
    tf.SetStatus(status, error->code, error->message);
    error->code = TF_OK;
}

static bool enter(failure *error) {
    if (gate_enter()) return true;
    fail(error, TF_CANCELLED, "%s", GATE_CLOSED);
    return false;
}

/* ---- reading ---- */

static void reader_cleanup(TF_RandomAccessFile *file) { fs_reader_close(file->plugin_file); }

static int64_t reader_read(const TF_RandomAccessFile *file, uint64_t offset, size_t n, char *buffer,
                           TF_Status *status) {
    failure error = {0};
    const int64_t got = fs_reader_read(file->plugin_file, offset, n, buffer, &error);
    if (got >= 0 && (size_t)got < n) fail(&error, TF_OUT_OF_RANGE, "the file ends here");
    report(&error, status);
    return got;
}

static void new_reader(const TF_Filesystem *filesystem, const char *path, TF_RandomAccessFile *file,
                       TF_Status *status) {
    (void)filesystem;
    failure error = {0};
    file->plugin_file = fs_reader_open(path, &error);
    report(&error, status);
}

/* ---- writing ---- */

static void writer_cleanup(TF_WritableFile *file) { fs_writer_release(file->plugin_file); }

static void writer_append(const TF_WritableFile *file, const char *bytes, size_t n,
                          TF_Status *status) {
    failure error = {0};
    fs_writer_append(file->plugin_file, bytes, n, &error);
    report(&error, status);
}

static int64_t writer_tell(const TF_WritableFile *file, TF_Status *status) {
    tf.SetStatus(status, TF_OK, "");
    return fs_writer_position(file->plugin_file);
}

/* A flush need not reach the store. It could do so only by writing the whole object anew. */
static void writer_flush(const TF_WritableFile *file, TF_Status *status) {
    (void)file;
    tf.SetStatus(status, TF_OK, "");
}

static void writer_sync(const TF_WritableFile *file, TF_Status *status) {
    failure error = {0};
    fs_writer_sync(file->plugin_file, &error);
    report(&error, status);
}

static void writer_close(const TF_WritableFile *file, TF_Status *status) {
    failure error = {0};
    fs_writer_finish(file->plugin_file, &error);
    report(&error, status);
}

static void open_writer(const char *path, bool append, TF_WritableFile *file, TF_Status *status) {
    failure error = {0};
    file->plugin_file = fs_writer_open(path, append, &error);
    report(&error, status);
}

static void new_writer(const TF_Filesystem *filesystem, const char *path, TF_WritableFile *file,
                       TF_Status *status) {
    (void)filesystem;
    open_writer(path, false, file, status);
}

static void new_appender(const TF_Filesystem *filesystem, const char *path, TF_WritableFile *file,
                         TF_Status *status) {
    (void)filesystem;
    open_writer(path, true, file, status);
}

/* ---- memory regions: the whole file, read once ---- */

typedef struct {
    uint64_t size;
    char bytes[];
} region;

static void region_cleanup(TF_ReadOnlyMemoryRegion *file) { free(file->plugin_memory_region); }

static const void *region_data(const TF_ReadOnlyMemoryRegion *file) {
    return ((const region *)file->plugin_memory_region)->bytes;
}

static uint64_t region_length(const TF_ReadOnlyMemoryRegion *file) {
    return ((const region *)file->plugin_memory_region)->size;
}

static region *read_region(fs_reader *reader, failure *error) {
    const uint64_t size = fs_reader_size(reader);
    if (!size) {
        fail(error, TF_INVALID_ARGUMENT, "an empty file has no memory region");
        return NULL;
    }
    region *whole = size > PTRDIFF_MAX - sizeof *whole ? NULL : malloc(sizeof *whole + size);
    if (!whole) {
        fail(error, TF_RESOURCE_EXHAUSTED, "no memory for the whole file");
        return NULL;
    }
    whole->size = size;
    if (fs_reader_read(reader, 0, size, whole->bytes, error) == (int64_t)size) return whole;
    free(whole);
    return NULL;
}

static void new_region(const TF_Filesystem *filesystem, const char *path,
                       TF_ReadOnlyMemoryRegion *file, TF_Status *status) {
    (void)filesystem;
    failure error = {0};
    fs_reader *reader = fs_reader_open(path, &error);
    file->plugin_memory_region = reader ? read_region(reader, &error) : NULL;
    if (reader) fs_reader_close(reader);
    report(&error, status);
}

/* ---- paths ---- */

static void run(fs_operation operation, const char *path, const char *target, TF_Status *status) {
    failure error = {0};
    if (enter(&error)) {
        host_run(operation, path, target, &error);
        gate_leave();
    }
    report(&error, status);
}

#define PATH_OPERATION(name, operation)                                                            \
    static void name(const TF_Filesystem *filesystem, const char *path, TF_Status *status) {       \
        (void)filesystem;                                                                          \
        run(operation, path, NULL, status);                                                        \
    }

PATH_OPERATION(create_dir, FS_CREATE_DIRECTORY)
PATH_OPERATION(create_dirs, FS_CREATE_DIRECTORIES)
PATH_OPERATION(delete_file, FS_DELETE_FILE)
PATH_OPERATION(delete_dir, FS_DELETE_DIRECTORY)
PATH_OPERATION(path_exists, FS_EXISTS)

static void delete_tree(const TF_Filesystem *filesystem, const char *path,
                        uint64_t *undeleted_files, uint64_t *undeleted_dirs, TF_Status *status) {
    (void)filesystem;
    failure error = {0};
    if (enter(&error)) {
        host_run(FS_DELETE_TREE, path, NULL, &error);
        gate_leave();
    }
    *undeleted_files = 0;
    *undeleted_dirs = error.code ? 1 : 0;
    report(&error, status);
}

static void rename_file(const TF_Filesystem *filesystem, const char *from, const char *to,
                        TF_Status *status) {
    (void)filesystem;
    run(FS_RENAME, from, to, status);
}

static void copy_file(const TF_Filesystem *filesystem, const char *from, const char *to,
                      TF_Status *status) {
    (void)filesystem;
    run(FS_COPY, from, to, status);
}

static bool is_directory(const TF_Filesystem *filesystem, const char *path, TF_Status *status) {
    (void)filesystem;
    failure error = {0};
    if (enter(&error)) {
        host_run(FS_IS_DIRECTORY, path, NULL, &error);
        gate_leave();
    }
    const bool yes = !error.code;
    report(&error, status);
    return yes;
}

static bool paths_exist(const TF_Filesystem *filesystem, char **paths, int count,
                        TF_Status **statuses) {
    (void)filesystem;
    bool all = true;
    for (int i = 0; i < count; i++) {
        failure error = {0};
        if (enter(&error)) {
            host_run(FS_EXISTS, paths[i], NULL, &error);
            gate_leave();
        }
        all = all && !error.code;
        if (statuses) report(&error, statuses[i]);
        error.code = TF_OK;
    }
    return all;
}

static bool stat_path(const char *path, fs_stat *found, TF_Status *status) {
    failure error = {0};
    if (enter(&error)) {
        host_stat(path, found, &error);
        gate_leave();
    }
    const bool ok = !error.code;
    report(&error, status);
    return ok;
}

static void stat_op(const TF_Filesystem *filesystem, const char *path, TF_FileStatistics *out,
                    TF_Status *status) {
    (void)filesystem;
    fs_stat found = {0};
    if (!stat_path(path, &found, status)) return;
    *out = (TF_FileStatistics){found.size, found.mtime_ns, found.is_directory != 0};
}

static int64_t file_size(const TF_Filesystem *filesystem, const char *path, TF_Status *status) {
    (void)filesystem;
    fs_stat found = {0};
    if (!stat_path(path, &found, status)) return -1;
    if (found.is_directory) tf.SetStatus(status, TF_FAILED_PRECONDITION, "it is a directory");
    return found.size;
}

static int names(int (*ask)(const char *, char ***, failure *), const char *path, char ***entries,
                 TF_Status *status) {
    failure error = {0};
    int count = -1;
    if (enter(&error)) {
        count = ask(path, entries, &error);
        gate_leave();
    }
    report(&error, status);
    return count;
}

static int get_children(const TF_Filesystem *filesystem, const char *path, char ***entries,
                        TF_Status *status) {
    (void)filesystem;
    return names(host_children, path, entries, status);
}

static int get_matching_paths(const TF_Filesystem *filesystem, const char *glob, char ***entries,
                              TF_Status *status) {
    (void)filesystem;
    return names(host_glob, glob, entries, status);
}

static char *translate_name(const TF_Filesystem *filesystem, const char *uri) {
    (void)filesystem;
    return clean_path(uri);
}

static void flush_caches(const TF_Filesystem *filesystem) {
    (void)filesystem;
    fs_cache_clear();
}

static void init(TF_Filesystem *filesystem, TF_Status *status) {
    filesystem->plugin_filesystem = NULL; /* paths carry their scheme; there is nothing to keep */
    tf.SetStatus(status, TF_OK, "");
}

static void cleanup(TF_Filesystem *filesystem) { (void)filesystem; }

/* ---- the tables, and how TensorFlow gets them ---- */

static const TF_RandomAccessFileOps READER_OPS = {
    .cleanup = reader_cleanup,
    .read = reader_read,
};

static const TF_WritableFileOps WRITER_OPS = {
    .cleanup = writer_cleanup,
    .append = writer_append,
    .tell = writer_tell,
    .flush = writer_flush,
    .sync = writer_sync,
    .close = writer_close,
};

static const TF_ReadOnlyMemoryRegionOps REGION_OPS = {
    .cleanup = region_cleanup,
    .data = region_data,
    .length = region_length,
};

static const TF_FilesystemOps FILESYSTEM_OPS = {
    .init = init,
    .cleanup = cleanup,
    .new_random_access_file = new_reader,
    .new_writable_file = new_writer,
    .new_appendable_file = new_appender,
    .new_read_only_memory_region_from_file = new_region,
    .create_dir = create_dir,
    .recursively_create_dir = create_dirs,
    .delete_file = delete_file,
    .delete_dir = delete_dir,
    .delete_recursively = delete_tree,
    .rename_file = rename_file,
    .copy_file = copy_file,
    .path_exists = path_exists,
    .paths_exist = paths_exist,
    .stat = stat_op,
    .is_directory = is_directory,
    .get_file_size = file_size,
    .translate_name = translate_name,
    .get_children = get_children,
    .get_matching_paths = get_matching_paths,
    .flush_caches = flush_caches,
};

static const char *pending_scheme;

void fs_plugin_offer(const char *scheme) { pending_scheme = scheme; }

/* TensorFlow frees each table that it gets. So each is a copy. */
static void *copy_of(const void *table, size_t size) {
    void *copy = malloc(size);
    return copy ? memcpy(copy, table, size) : NULL;
}

#define OFFER(ops, field, table)                                                                   \
    do {                                                                                           \
        (ops)->field##_abi = TF_FILESYSTEM_ABI;                                                    \
        (ops)->field##_api = TF_FILESYSTEM_API;                                                    \
        (ops)->field##_size = sizeof(table);                                                       \
        (ops)->field = copy_of(&table, sizeof(table));                                             \
    } while (0)

__attribute__((visibility("default"))) void TF_InitPlugin(TF_FilesystemPluginInfo *info);

void TF_InitPlugin(TF_FilesystemPluginInfo *info) {
    info->plugin_memory_allocate = malloc;
    info->plugin_memory_free = free;
    info->num_schemes = 0;
    info->ops = pending_scheme ? calloc(1, sizeof *info->ops) : NULL;
    if (!info->ops) return; /* register_filesystem did not load this: offer nothing */
    info->num_schemes = 1;
    info->ops->scheme = strdup(pending_scheme);
    OFFER(info->ops, filesystem_ops, FILESYSTEM_OPS);
    OFFER(info->ops, random_access_file_ops, READER_OPS);
    OFFER(info->ops, writable_file_ops, WRITER_OPS);
    OFFER(info->ops, read_only_memory_region_ops, REGION_OPS);
}
