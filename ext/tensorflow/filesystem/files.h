/* Open files. */
#ifndef TFIO_STORE_FS_FILES_H
#define TFIO_STORE_FS_FILES_H

#include "tensorflow/filesystem/cache.h"

/* One open file for reading: cached blocks, direct ranges for what is large, and read-ahead. */

typedef struct fs_reader fs_reader;

fs_reader *fs_reader_open(const char *path, failure *error);
void fs_reader_close(fs_reader *reader);
uint64_t fs_reader_size(fs_reader *reader);

/* Up to n bytes from `offset`; fewer only where the file ends. -1 and *error when that fails. Safe
 * from several threads at once. */
int64_t fs_reader_read(fs_reader *reader, uint64_t offset, size_t n, char *buffer, failure *error);

/* One open file for writing: gathers TensorFlow's small appends before they go to Python. */

typedef struct fs_writer fs_writer;

fs_writer *fs_writer_open(const char *path, bool append, failure *error);
void fs_writer_append(fs_writer *writer, const char *bytes, size_t n, failure *error);
int64_t fs_writer_position(const fs_writer *writer);

/* Makes what was written so far visible, if it is worth the store's while (the host decides). */
void fs_writer_sync(fs_writer *writer, failure *error);

/* Makes the file visible, whole. */
void fs_writer_finish(fs_writer *writer, failure *error);

/* A file that nobody finished is finished here, as with TensorFlow's own filesystems: `GFile(p,
 * "w").write(s)` without a close is common. Unless an append failed: then nothing is left. */
void fs_writer_release(fs_writer *writer);

#endif
