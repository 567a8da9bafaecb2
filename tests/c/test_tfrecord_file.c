/* Data out of files, into memory of the exact size. */
#define _GNU_SOURCE /* fileno */
#include <unistd.h>

#include "check.h"
#include "crc32c/crc32c.h"
#include "tfrecord/tfrecord_file.h"

#define PIECE ((size_t)128 << 10)
#define BEFORE ((size_t)7)
#define TAIL ((size_t)16)

static int file_of(const uint8_t *data, size_t size) {
    FILE *file = tmpfile();
    if (file == NULL) abort();
    if (fwrite(data, 1, size, file) != size || fflush(file) != 0) abort();
    int descriptor = dup(fileno(file));
    fclose(file);
    if (descriptor < 0) abort();
    return descriptor;
}

/* `size` bytes behind the first ones, of a file in which `there` bytes follow these. */
static void read_one(size_t size, size_t there) {
    uint8_t *content = noise(BEFORE + there, (uint32_t)size + 1);
    uint8_t *data = copy_of("", 0), *tail = copy_of("0123456789abcdef", TAIL);
    int descriptor = file_of(content, BEFORE + there);
    uint32_t crc = 0;
    size_t got = 0;
    data = realloc(data, size > 0 ? size : 1);
    if (data == NULL) abort();
    CHECK(tfrecord_read_data(descriptor, data, size, tail, TAIL, BEFORE, &crc, &got) == 0);
    CHECK(got == (there < size + TAIL ? there : size + TAIL));
    CHECK(memcmp(data, content + BEFORE, got < size ? got : size) == 0);
    if (got >= size) {
        CHECK(crc == crc32c_mask(crc32c_extend(0, content + BEFORE, size)));
        CHECK(memcmp(tail, content + BEFORE + size, got - size) == 0);
    }
    CHECK(tfrecord_read_data(descriptor, data, size, NULL, 0, BEFORE, NULL, &got) == 0);
    CHECK(got == (there < size ? there : size));
    close(descriptor);
    free(content);
    free(data);
    free(tail);
}

static void data_of_any_size_in_files_of_any(void) {
    size_t sizes[] = {0,         1,        12, 4096, PIECE - 1, PIECE, PIECE + PIECE / 2 + 1,
                      2 * PIECE, 3 * PIECE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        size_t there[] = {size + TAIL, size + TAIL + 100, size + 4, size, size / 2, 0};
        for (size_t k = 0; k < sizeof there / sizeof there[0]; k++) read_one(size, there[k]);
    }
}

static void a_file_that_cannot_be_read(void) {
    uint8_t data[4];
    size_t got = 0;
    CHECK(tfrecord_read_data(-1, data, sizeof data, NULL, 0, 0, NULL, &got) != 0);
    CHECK(got == 0);
}

void test_tfrecord_file(void) {
    data_of_any_size_in_files_of_any();
    a_file_that_cannot_be_read();
}
