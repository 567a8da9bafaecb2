#include "tensorflow/filesystem/path.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_segment(const char *at, size_t length, const char *what) {
    return length == strlen(what) && memcmp(at, what, length) == 0;
}

/* Drops the last segment of [root, end) and the slash before it. */
static char *parent(char *root, char *end) {
    while (end > root && end[-1] != '/') end--;
    return end > root ? end - 1 : root;
}

char *fs_path_clean(const char *url) {
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
