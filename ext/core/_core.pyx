# cython: boundscheck=True, wraparound=True
"""The compiled core: CRC32C, record framing and record batches. No I/O but in _file.pxi.

Docstrings of the public names are in tfio_store/records/_core.pyi as well; the parts below are one concept
each. Work on 32 KiB or more is done without the GIL.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_New
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from crc32c cimport combine, crc32c_active, crc32c_extend, crc32c_mask
from inflate cimport (
    INFLATE_BAD, INFLATE_CUT, INFLATE_FULL, INFLATE_GZIP, INFLATE_MEMBER, INFLATE_MORE, INFLATE_MOST_HEADER,
    INFLATE_SPARE, INFLATE_WINDOW, INFLATE_ZLIB, inflate_begin, inflate_container, inflate_header, inflate_resume,
    inflate_run, inflate_status, inflater)
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove, memset
from pool cimport POOL_CAPSULE, pool_give, pool_kept as _pool_kept, pool_lend, pool_serve as _pool_serve, pool_take
from tasks cimport (
    TASKS_CAPSULE, task, task_begin, task_begins, task_is_done, task_leave, task_wait, tasks_lend)
from tfrecord cimport (
    TFRECORD_FEWEST_ENTRIES, TFRECORD_FOOTER, TFRECORD_HEADER, TFRECORD_MAX_LIMIT, TFRECORD_OVERHEAD, c_bool,
    tfrecord_cursor, tfrecord_find, tfrecord_first_room, tfrecord_new_task, tfrecord_put, tfrecord_read_data,
    tfrecord_scan, tfrecord_span, tfrecord_task, tfrecord_walk, tfrecord_walk_file)

cdef extern from "memory/bytes.h":
    uint32_t load32(const uint8_t *p)

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX
    Py_ssize_t PyNumber_AsSsize_t(object value, object error) except? -1
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

import collections
import operator
import os
import pickle

import numpy as np

FRAME_OVERHEAD = TFRECORD_OVERHEAD
HEADER_BYTES = TFRECORD_HEADER
DEFAULT_MAX_RECORD_BYTES = 1 << 30

cdef Py_ssize_t NOGIL_BYTES = 32 << 10  # from here on work is worth giving the GIL away for

include "_memory.pxi"
include "_crc.pxi"
include "_batch.pxi"
include "_scan.pxi"
include "_task.pxi"
include "_file.pxi"
include "_write.pxi"
include "_inflate.pxi"
