/* One open file for writing: gathers TensorFlow's small appends before they go to Python. */
#ifndef TFIO_STORE_FS_WRITER_H
#define TFIO_STORE_FS_WRITER_H

#include "tensorflow/filesystem/cache.h"

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
