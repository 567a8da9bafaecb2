/* TensorFlow's modular filesystem interface, as far as this plugin fills it in.
 *
 * These are the layouts that TensorFlow's loader copies from a plugin (ABI 0, API 0; the same in
 * every release from 2.16 to 2.21). They are declared here so that building needs no TensorFlow.
 * The loader refuses a plugin whose ABI number is not its own. It copies as many bytes of a table as
 * the plugin says that it has; the rest becomes NULL. TensorFlow does not call the entries after
 * `flush_caches` (transactions and options). So they are left out.
 */
#ifndef TFIO_STORE_TF_FILESYSTEM_H
#define TFIO_STORE_TF_FILESYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/abi.h"

/* TensorFlow owns these and hands them back. Each holds one pointer of ours. */
typedef struct {
    void *plugin_file;
} TF_RandomAccessFile;
typedef struct {
    void *plugin_file;
} TF_WritableFile;
typedef struct {
    void *plugin_memory_region;
} TF_ReadOnlyMemoryRegion;
typedef struct {
    void *plugin_filesystem;
} TF_Filesystem;

typedef struct {
    int64_t length;     /* bytes */
    int64_t mtime_nsec; /* since the epoch */
    bool is_directory;
} TF_FileStatistics;

typedef struct {
    void (*cleanup)(TF_RandomAccessFile *);
    /* Bytes read, or -1. OUT_OF_RANGE when the file ends before n. */
    int64_t (*read)(const TF_RandomAccessFile *, uint64_t offset, size_t n, char *, TF_Status *);
} TF_RandomAccessFileOps;

typedef struct {
    void (*cleanup)(TF_WritableFile *);
    void (*append)(const TF_WritableFile *, const char *, size_t n, TF_Status *);
    int64_t (*tell)(const TF_WritableFile *, TF_Status *);
    void (*flush)(const TF_WritableFile *, TF_Status *);
    void (*sync)(const TF_WritableFile *, TF_Status *);
    void (*close)(const TF_WritableFile *, TF_Status *);
} TF_WritableFileOps;

typedef struct {
    void (*cleanup)(TF_ReadOnlyMemoryRegion *);
    const void *(*data)(const TF_ReadOnlyMemoryRegion *);
    uint64_t (*length)(const TF_ReadOnlyMemoryRegion *);
} TF_ReadOnlyMemoryRegionOps;

typedef struct {
    void (*init)(TF_Filesystem *, TF_Status *);
    void (*cleanup)(TF_Filesystem *);
    void (*new_random_access_file)(const TF_Filesystem *, const char *path, TF_RandomAccessFile *,
                                   TF_Status *);
    void (*new_writable_file)(const TF_Filesystem *, const char *path, TF_WritableFile *,
                              TF_Status *);
    void (*new_appendable_file)(const TF_Filesystem *, const char *path, TF_WritableFile *,
                                TF_Status *);
    void (*new_read_only_memory_region_from_file)(const TF_Filesystem *, const char *path,
                                                  TF_ReadOnlyMemoryRegion *, TF_Status *);
    void (*create_dir)(const TF_Filesystem *, const char *path, TF_Status *);
    void (*recursively_create_dir)(const TF_Filesystem *, const char *path, TF_Status *);
    void (*delete_file)(const TF_Filesystem *, const char *path, TF_Status *);
    void (*delete_dir)(const TF_Filesystem *, const char *path, TF_Status *);
    void (*delete_recursively)(const TF_Filesystem *, const char *path, uint64_t *undeleted_files,
                               uint64_t *undeleted_dirs, TF_Status *);
    void (*rename_file)(const TF_Filesystem *, const char *from, const char *to, TF_Status *);
    void (*copy_file)(const TF_Filesystem *, const char *from, const char *to, TF_Status *);
    void (*path_exists)(const TF_Filesystem *, const char *path, TF_Status *);
    bool (*paths_exist)(const TF_Filesystem *, char **paths, int count, TF_Status **);
    void (*stat)(const TF_Filesystem *, const char *path, TF_FileStatistics *, TF_Status *);
    /* The answer is the status: FAILED_PRECONDITION says "not a directory". */
    bool (*is_directory)(const TF_Filesystem *, const char *path, TF_Status *);
    int64_t (*get_file_size)(const TF_Filesystem *, const char *path, TF_Status *);
    char *(*translate_name)(const TF_Filesystem *, const char *uri);
    int (*get_children)(const TF_Filesystem *, const char *path, char ***entries, TF_Status *);
    int (*get_matching_paths)(const TF_Filesystem *, const char *glob, char ***entries,
                              TF_Status *);
    void (*flush_caches)(const TF_Filesystem *);
} TF_FilesystemOps;

enum { TF_FILESYSTEM_ABI = 0, TF_FILESYSTEM_API = 0 };

typedef struct {
    char *scheme;
    int filesystem_ops_abi, filesystem_ops_api;
    size_t filesystem_ops_size;
    TF_FilesystemOps *filesystem_ops;
    int random_access_file_ops_abi, random_access_file_ops_api;
    size_t random_access_file_ops_size;
    TF_RandomAccessFileOps *random_access_file_ops;
    int writable_file_ops_abi, writable_file_ops_api;
    size_t writable_file_ops_size;
    TF_WritableFileOps *writable_file_ops;
    int read_only_memory_region_ops_abi, read_only_memory_region_ops_api;
    size_t read_only_memory_region_ops_size;
    TF_ReadOnlyMemoryRegionOps *read_only_memory_region_ops;
} TF_FilesystemPluginOps;

typedef struct {
    size_t num_schemes;
    TF_FilesystemPluginOps *ops;
    void *(*plugin_memory_allocate)(size_t);
    void (*plugin_memory_free)(void *);
} TF_FilesystemPluginInfo;

/* Sets the scheme that the next TF_InitPlugin offers: TensorFlow loads this extension by its path, and
 * asks that what it offers. NULL for none. The text is not copied. */
void fs_plugin_offer(const char *scheme);

#endif
