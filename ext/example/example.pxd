"""ext/example/example.h as Cython sees it, and the two conversions that both halves use."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from tasks cimport c_bool, task

cdef extern from "example/example.h" nogil:
    ctypedef struct ex_bytes:
        const uint8_t *data
        size_t size
    ctypedef enum ex_kind:
        EX_NO_KIND, EX_BYTES, EX_FLOAT, EX_INT64
    ctypedef enum ex_status:
        EX_OK, EX_MISSING, EX_KIND, EX_COUNT
    enum:
        EX_FEATURES, EX_CONTEXT, EX_FEATURE_LISTS
    const char *ex_reason(ex_status)

    ctypedef struct ex_key_slot:
        pass
    ctypedef struct ex_keys:
        pass
    ctypedef struct ex_walk:
        pass
    ctypedef struct ex_column:
        const ex_bytes *slots
        size_t records
        const int64_t *splits
        size_t width
        const void *fallback
        uint8_t *valid
    size_t ex_table_size(size_t)
    void ex_keys_init(ex_keys *, const ex_bytes *, size_t, ex_key_slot *, uint32_t *)
    ex_status ex_locate(ex_keys *, ex_bytes, uint32_t, ex_bytes *, size_t)
    void ex_walk_init(ex_walk *, ex_bytes)
    ex_status ex_walk_next(ex_walk *, uint32_t, ex_bytes *, ex_bytes *)
    ex_status ex_kind_of(ex_bytes, ex_kind *)
    ex_status ex_count(ex_bytes, ex_kind, size_t *)
    ex_status ex_steps(ex_bytes *, ex_bytes *, size_t, size_t *)
    ex_status ex_count_column(const ex_column *, ex_kind, int64_t *, size_t *)
    ex_status ex_read_floats(const ex_column *, float *, size_t *)
    ex_status ex_read_int64s(const ex_column *, int64_t *, size_t *)
    ex_status ex_read_bytes(const ex_column *, ex_bytes *, size_t *)

    ctypedef struct ex_feature:
        ex_bytes key
        ex_kind kind
        size_t count
        const void *values
        size_t payload
        uint8_t absent
    size_t ex_measure_feature(ex_feature *)
    size_t ex_measure_features(ex_feature *, size_t)
    size_t ex_measure_field(size_t)
    uint8_t *ex_put_header(uint8_t *, uint32_t, size_t)
    uint8_t *ex_put_bytes(uint8_t *, uint32_t, ex_bytes)
    uint8_t *ex_put_feature(uint8_t *, const ex_feature *)
    uint8_t *ex_put_features(uint8_t *, const ex_feature *, size_t)


cdef extern from "example/example_columns.h" nogil:
    ctypedef struct ex_part:
        const uint8_t *base
        const int64_t *starts
        const int64_t *sizes
        size_t count
    ctypedef struct ex_fixed:
        ex_kind kind
        size_t width
        void *out
    ctypedef struct ex_columns_task:
        task task
        ex_part *parts
        ex_fixed *columns
        ex_status status
        uint64_t ns
    ex_columns_task *ex_new_columns_task(size_t parts, size_t columns)
    c_bool ex_set_key(ex_columns_task *made, size_t column, ex_bytes key)
    ctypedef struct ex_kept:
        ex_kept *next
        ex_columns_task *made
        void *held
    void ex_keep(ex_kept *kept)
    ex_kept *ex_take_kept()


cdef inline ex_bytes ex_borrow(bytes value) noexcept:
    """The bytes of an object, valid while it lives."""
    return ex_bytes(<const uint8_t *> PyBytes_AS_STRING(value), <size_t> PyBytes_GET_SIZE(value))
