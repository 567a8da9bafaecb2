"""The bridge to TensorFlow: ops for datasets, and filesystems. Built without TensorFlow: see abi.h."""

import atexit

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strdup


cdef extern from "<stdbool.h>" nogil:
    ctypedef bint c_bool "bool"

cdef extern from "pthread.h" nogil:
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)

cdef extern from "tensorflow/abi.h" nogil:
    ctypedef enum TF_Code:
        TF_CANCELLED
        TF_UNKNOWN
        TF_RESOURCE_EXHAUSTED
        TF_UNAVAILABLE
    const char *tf_abi_load()

cdef extern from "tensorflow/failure.h" nogil:
    ctypedef struct failure:
        TF_Code code
        char message[2048]
    c_bool fail(failure *why, TF_Code code, const char *format, ...)


cdef int load_abi() except -1:
    """Look up TensorFlow's C functions."""
    cdef const char *missing = tf_abi_load()
    if missing != NULL:
        raise ImportError(f"this TensorFlow has no {missing.decode()}")
    return 0


include "ops/_ops.pxi"
include "filesystem/_filesystem.pxi"
