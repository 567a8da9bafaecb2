# See tfrecord.h.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from tasks cimport task


cdef extern from "<stdbool.h>":
    ctypedef bint c_bool "bool"


cdef extern from "tfrecord/tfrecord.h" nogil:
    enum:
        TFRECORD_HEADER
        TFRECORD_FOOTER
        TFRECORD_OVERHEAD

    const uint64_t TFRECORD_MAX_LIMIT

    ctypedef enum tfrecord_fault:
        pass

    ctypedef struct tfrecord_cursor:
        size_t offset
        size_t count
        tfrecord_fault fault
        uint64_t need
        uint32_t sum

    uint8_t *tfrecord_put(
        uint8_t *frame, const uint8_t *const *records, const size_t *sizes, size_t count)
    void tfrecord_scan(
        tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit, c_bool verify,
        int64_t *offsets, int64_t *lengths, size_t capacity)
    void tfrecord_walk(
        tfrecord_cursor *cursor, const uint8_t *data, size_t size, uint64_t limit,
        int64_t *frames, size_t capacity)
    size_t tfrecord_find(
        const uint8_t *data, size_t size, size_t start, uint64_t limit, c_bool final,
        uint64_t *patience, c_bool *found)


cdef extern from "tfrecord/tfrecord_file.h" nogil:
    int tfrecord_walk_file(
        tfrecord_cursor *cursor, int descriptor, size_t size, uint64_t limit, int64_t *frames,
        int64_t *sums, size_t capacity)
    int tfrecord_read_data(
        int descriptor, uint8_t *data, size_t size, uint8_t *tail, size_t tail_size, size_t offset,
        uint32_t *crc, size_t *got)

    ctypedef struct tfrecord_opened:
        int descriptor
        uint64_t inode
        uint64_t changed
        uint64_t size
    ctypedef struct tfrecord_span:
        int descriptor
        size_t offset
        size_t size
        uint64_t limit
        c_bool verify
        c_bool find
        c_bool cached
        uint64_t read_ns
        uint64_t scan_ns


cdef extern from "tfrecord/tfrecord_span.h" nogil:
    ctypedef struct tfrecord_task:
        task task
        tfrecord_span span
        size_t expected
        size_t headroom
        uint32_t summed
        int error
        tfrecord_opened file
        tfrecord_cursor cursor
        uint8_t *memory
        size_t capacity
        int64_t *offsets
        size_t index_capacity
        size_t room
    const size_t TFRECORD_FEWEST_ENTRIES
    size_t tfrecord_first_room(size_t size, size_t most)
    tfrecord_task *tfrecord_new_task(const char *path, const tfrecord_span *span)
