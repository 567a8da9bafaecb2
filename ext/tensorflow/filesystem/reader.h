/* One open file for reading: cached blocks, direct ranges for what is large, and read-ahead. */
#ifndef TFIO_STORE_FS_READER_H
#define TFIO_STORE_FS_READER_H

#include "tensorflow/filesystem/cache.h"

typedef struct fs_reader fs_reader;

fs_reader *fs_reader_open(const char *path, failure *error);
void fs_reader_close(fs_reader *reader);
uint64_t fs_reader_size(fs_reader *reader);

/* Up to n bytes from `offset`; fewer only where the file ends. -1 and *error when that fails. Safe
 * from several threads at once. */
int64_t fs_reader_read(fs_reader *reader, uint64_t offset, size_t n, char *buffer, failure *error);

#endif
