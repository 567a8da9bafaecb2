# See crc32c.h.
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "crc32c/crc32c.h" nogil:
    ctypedef struct crc32c_kernel:
        const char *name
        bint (*supported)()
        uint32_t (*extend)(uint32_t crc, const uint8_t *data, size_t size)

    const crc32c_kernel *crc32c_active
    uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t size)
    uint32_t combine "crc32c_combine"(uint32_t first, uint32_t second, uint64_t second_length)
    uint32_t crc32c_mask(uint32_t crc)
