# cython: freethreading_compatible=False
"""The bridge to TensorFlow: ops for datasets, and filesystems. Built without TensorFlow: see abi.h."""

import atexit
import sys

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strdup
from pool cimport POOL_CAPSULE, pool_borrow, pool_functions

from tfio_store.errors import Reason


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


cdef extern from "tensorflow/gate.h" nogil:
    const char *GATE_CLOSED
    c_bool gate_enter()
    void gate_leave()
    void gate_close()
    c_bool gate_drain(double seconds)
    void gate_after_fork()

cdef extern from "Python.h":
    int Py_AddPendingCall(int (*call)(void *) except -1, void *argument)


cdef int borrow_pool() except -1:
    """The process has one pool: the compiled core's, if that is in use."""
    core = sys.modules.get("tfio_store.records._core")
    if core is not None:
        pool_borrow(<const pool_functions *> PyCapsule_GetPointer(core._pool, POOL_CAPSULE))
    return 0


borrow_pool()


cdef int load_abi() except -1:
    """Look up TensorFlow's C functions."""
    cdef const char *missing = tf_abi_load()
    if missing != NULL:
        raise ImportError(f"this TensorFlow has no {missing.decode()}")
    return 0


# ---- leaving the interpreter ----

# How long to wait for calls that are in Python: longer than a request may take.
cdef double EXIT_SECONDS = 60.0

cdef object tell_who_waits = None


def at_exit(tell):
    """Call ``tell`` when the interpreter leaves. It ends what calls that are in Python wait for."""
    global tell_who_waits
    tell_who_waits = tell


def _leave():
    """Nobody enters Python after this. What is on its way is given up, and its readers are told."""
    try:
        if host is not None:
            host.leave()
    finally:
        gate_close()
        fs_cache_abandon(TF_CANCELLED, GATE_CLOSED)
        if tell_who_waits is not None:
            tell_who_waits()
        with nogil:
            gate_drain(EXIT_SECONDS)


atexit.register(_leave)


# ---- what ends a program, and is raised in an op ----

cdef int raise_again(void *raised) except -1:
    error = <object> raised
    Py_DECREF(error)
    raise error


cdef int pass_on(object error) except -1:
    """An interrupt or an exit that a signal's handler raises is for whoever called TensorFlow."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        Py_INCREF(error)
        if Py_AddPendingCall(raise_again, <void *> error) != 0:
            Py_DECREF(error)
    return 0


include "ops/_ops.pxi"
include "filesystem/_filesystem.pxi"
