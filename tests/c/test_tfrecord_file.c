/* Data out of files, into memory of the exact size. */
#define _GNU_SOURCE /* fileno */
#include <errno.h>
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

/* A file of `count` records of `size` bytes, behind `BEFORE` bytes of noise. */
static int file_of_records(size_t count, size_t size, size_t *nbytes) {
    uint8_t *record = noise(size, 7);
    const uint8_t **records = malloc(count * sizeof *records);
    size_t *sizes = malloc(count * sizeof *sizes);
    uint8_t *content = noise(BEFORE + count * (size + TFRECORD_OVERHEAD), 3);
    if (records == NULL || sizes == NULL) abort();
    for (size_t i = 0; i < count; i++) records[i] = record, sizes[i] = size;
    *nbytes = (size_t)(tfrecord_put(content + BEFORE, records, sizes, count) - content) - BEFORE;
    int descriptor = file_of(content, BEFORE + *nbytes);
    free(record);
    free(records);
    free(sizes);
    free(content);
    return descriptor;
}

/* All of them by calls with room for `room` records, from `skipped` bytes behind the first on. */
static void scan_all(size_t count, size_t size, size_t room, size_t skipped) {
    size_t nbytes = 0, done = 0, total = 0;
    int descriptor = file_of_records(count, size, &nbytes);
    int64_t *offsets = malloc(room * sizeof *offsets), *lengths = malloc(room * sizeof *lengths);
    uint8_t *data = copy_of("", 0);
    tfrecord_span span = {.descriptor = descriptor,
                          .offset = BEFORE + skipped,
                          .size = nbytes - skipped,
                          .limit = (uint64_t)1 << 30,
                          .verify = true,
                          .find = skipped > 0};
    tfrecord_cursor cursor = {0};
    data = realloc(data, span.size);
    if (data == NULL || offsets == NULL || lengths == NULL) abort();
    do {
        CHECK(tfrecord_scan_file(&cursor, &span, data, &done, offsets, lengths, room) == 0);
        CHECK(cursor.fault == TFRECORD_OK);
        for (size_t i = 0; i < cursor.count; i++) CHECK(lengths[i] == (int64_t)size);
        total += cursor.count;
    } while (cursor.count == room);
    CHECK(total == (skipped > 0 ? count - 1 : count));
    CHECK(done == span.size);
    CHECK(cursor.offset == span.size);
    span.size++;
    cursor = (tfrecord_cursor){0};
    done = 0;
    data = realloc(data, span.size);
    span.find = skipped > 0;
    offsets = realloc(offsets, (count + 1) * sizeof *offsets);
    lengths = realloc(lengths, (count + 1) * sizeof *lengths);
    if (data == NULL || offsets == NULL || lengths == NULL) abort();
    CHECK(tfrecord_scan_file(&cursor, &span, data, &done, offsets, lengths, count + 1) == ENODATA);
    close(descriptor);
    free(data);
    free(offsets);
    free(lengths);
}

static void spans_of_any_size(void) {
    const size_t sizes[] = {0, 1, 100, 4096, 70000, 300000, 600000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t room = 1; room < 4000; room *= 9) {
            scan_all(12, sizes[i], room, 0);
            if (sizes[i] < 200000) scan_all(12, sizes[i], room, 1);
        }
    scan_all(30000, 20, 512, 0);
    scan_all(30000, 20, 512, 5);
}

static void a_path_that_is_no_file(void) {
    tfrecord_opened file;
    CHECK(tfrecord_open("/does/not/exist", &file) == ENOENT);
    CHECK(tfrecord_open("/", &file) == EINVAL);
    CHECK(tfrecord_open("/dev/null", &file) == EINVAL);
}

void test_tfrecord_file(void) {
    data_of_any_size_in_files_of_any();
    a_file_that_cannot_be_read();
    spans_of_any_size();
    a_path_that_is_no_file();
}
