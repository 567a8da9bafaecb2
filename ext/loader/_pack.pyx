"""Documents in rows of one length. The contract is tfio_store/loader/_pack.pyi, the way ext/loader/pack.h."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

import numpy as np

cdef extern from "loader/pack.h" nogil:
    ctypedef enum pack_status:
        PACK_OK
        PACK_NO_MEMORY
        PACK_SPLITS
        PACK_PLAN
    ctypedef struct pack_plan:
        int64_t *begins
        int64_t *sizes
        int64_t *splits
        size_t pieces
        size_t rows
    pack_status pack_check(const int64_t *splits, size_t documents, int64_t values, int64_t length,
                           size_t *most)
    void pack_concat(const int64_t *splits, size_t documents, int64_t length, pack_plan *plan)
    pack_status pack_first_fit(const int64_t *splits, size_t documents, int64_t length,
                               pack_plan *plan)
    pack_status pack_check_rows(const pack_plan *plan, size_t first, size_t last, int64_t length)
    ctypedef struct pack_part:
        const uint8_t *data
        int64_t begin
        int64_t end
    pack_status pack_copy(const pack_plan *plan, size_t first, size_t last, const pack_part *parts,
                          size_t count, size_t size, const uint8_t *padding, int64_t length,
                          uint8_t *out)
    int64_t pack_mark(const pack_plan *plan, size_t first, size_t last, int64_t length,
                      int32_t *segments, int32_t *positions)


cdef class Plan:
    cdef int64_t[::1] begins, sizes, splits
    cdef pack_plan plan
    cdef int64_t values, length

    def __cinit__(self, const int64_t[::1] splits not None, int64_t length, bint concat):
        cdef size_t most, documents
        cdef pack_status status
        if splits.shape[0] < 1 or not 1 <= length <= INT32_MAX:
            raise ValueError("there must be splits, and rows of a length from 1 to 2**31 - 1")
        documents = <size_t> splits.shape[0] - 1
        self.values, self.length = splits[documents], length
        with nogil:
            status = pack_check(&splits[0], documents, self.values, length, &most)
        if status:
            raise ValueError("splits must rise from 0")
        self.begins, self.sizes = np.empty(most, np.int64), np.empty(most, np.int64)
        self.splits = np.empty(most + 1, np.int64)
        self.plan = pack_plan(&self.begins[0], &self.sizes[0], &self.splits[0], 0, 0)
        with nogil:
            if concat:
                pack_concat(&splits[0], documents, length, &self.plan)
            else:
                status = pack_first_fit(&splits[0], documents, length, &self.plan)
        if status:
            raise MemoryError

    @property
    def rows(self):
        return self.plan.rows

    def copy(self, Py_ssize_t first, Py_ssize_t last, list parts not None,
             bytes padding not None, uint8_t[:, ::1] out not None):
        cdef Py_ssize_t size = len(padding), count = len(parts), held = 0, i
        cdef pack_status status = PACK_OK
        cdef pack_part *found = <pack_part *> calloc(<size_t> count + 1, sizeof(pack_part))
        cdef const uint8_t *behind = padding
        cdef Py_buffer *buffers = <Py_buffer *> calloc(<size_t> count + 1, sizeof(Py_buffer))
        try:
            if not found or not buffers:
                raise MemoryError
            self.check(first, last, out.shape[0])
            if not size or out.shape[1] % size or out.shape[1] // size != self.length:
                raise ValueError("out must have rows of the plan's length")
            for i in range(count):
                PyObject_GetBuffer(parts[i], &buffers[held], PyBUF_SIMPLE)
                held += 1
                found[i].data = <const uint8_t *> buffers[i].buf
                found[i].begin = found[i - 1].end if i else 0
                found[i].end = found[i].begin + buffers[i].len // size
                if buffers[i].len % size:
                    raise ValueError("padding and the parts must have values of the same size")
            if (found[count - 1].end if count else 0) != self.values:
                raise ValueError(f"the parts must have the plan's {self.values} values")
            if first < last:
                with nogil:
                    status = pack_copy(&self.plan, <size_t> first, <size_t> last, found,
                                       <size_t> count, <size_t> size, behind, self.length,
                                       &out[0, 0])
            if status:
                raise ValueError("each document must be in one part")
        finally:
            for i in range(held):
                PyBuffer_Release(&buffers[i])
            free(found)
            free(buffers)

    def mark(self, Py_ssize_t first, Py_ssize_t last, int32_t[:, ::1] segments not None,
             int32_t[:, ::1] positions not None):
        self.check(first, last, segments.shape[0])
        if not segments.shape[1] == positions.shape[1] == self.length or (
                positions.shape[0] != segments.shape[0]):
            raise ValueError("segments and positions must have rows of the plan's length")
        cdef int64_t values = 0
        if first < last:
            with nogil:
                values = pack_mark(&self.plan, <size_t> first, <size_t> last, self.length,
                                   &segments[0, 0], &positions[0, 0])
        return values

    cdef int check(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t room) except -1:
        if not 0 <= first <= last or last - first != room or pack_check_rows(
                &self.plan, <size_t> first, <size_t> last, self.length):
            raise ValueError(f"the plan has no rows {first} to {last} for {room}")
        return 0
