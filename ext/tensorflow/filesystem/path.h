/* URLs in one form. `s3://b//x/./y/../z/` and `s3://b/x/z` are the same file. */
#ifndef TFIO_STORE_FS_PATH_H
#define TFIO_STORE_FS_PATH_H

/* The URL without empty, `.` and `..` segments after its scheme, and without a slash at the end.
 * It is malloc'ed. NULL if there is no memory. */
char *fs_path_clean(const char *url);

#endif
