/* The little that C tests need: CHECK, which says where it failed and goes on. */
#ifndef TFIO_STORE_TESTS_CHECK_H
#define TFIO_STORE_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, __func__, #condition);          \
        }                                                                                          \
    } while (0)

/* Memory of exactly `size` bytes, so that the sanitizer sees one byte too many. */
static inline uint8_t *copy_of(const void *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

static inline uint8_t *noise(size_t size, uint32_t seed) {
    uint8_t *bytes = copy_of("", 0);
    bytes = realloc(bytes, size > 0 ? size : 1);
    if (bytes == NULL) abort();
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    return bytes;
}

void test_crc32c(void);
void test_inflate(void);
void test_pack(void);
void test_tfrecord(void);
void test_tfrecord_file(void);
void test_pool(void);

#endif
