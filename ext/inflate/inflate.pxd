# See inflate.h.
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "<stdbool.h>":
    ctypedef bint c_bool "bool"


cdef extern from "inflate/inflate.h" nogil:
    enum:
        INFLATE_MOST_HEADER

    const size_t INFLATE_WINDOW
    const size_t INFLATE_SPARE

    ctypedef enum inflate_status:
        INFLATE_MORE
        INFLATE_FULL
        INFLATE_MEMBER
        INFLATE_END
        INFLATE_CUT
        INFLATE_BAD

    ctypedef enum inflate_container:
        INFLATE_GZIP
        INFLATE_ZLIB

    ctypedef struct inflater:
        uint64_t bit
        size_t reach
        uint32_t check
        uint32_t length
        const char *why
        uint8_t *marks
        size_t since_mark

    void inflate_begin(inflater *state, inflate_container container)
    c_bool inflate_resume(
        inflater *state, inflate_container container, const uint8_t *header, uint32_t bits, size_t reach)
    inflate_status inflate_run(
        inflater *state, const uint8_t *data, size_t size, c_bool final, uint8_t *out, size_t *at,
        size_t limit, c_bool exact)
    uint32_t inflate_header(const inflater *state, uint8_t *header)
