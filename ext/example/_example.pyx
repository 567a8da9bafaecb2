"""The Example codec. The contract is tfio_store/example/_example.pyi, the wire ext/example/example.h."""

cimport cython
from cpython.buffer cimport PyBuffer_IsContiguous
from cpython.exc cimport PyErr_CheckSignals
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.float cimport FLT_MAX
from libc.stdint cimport SIZE_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset, strcmp

from example cimport *
from tasks cimport (
    TASKS_CAPSULE, task, task_begin, task_begins, task_functions, task_is_done, task_leave, task_wait,
    tasks_borrow)

import sys

import numpy as np

from tfio_store.errors import SchemaError
from tfio_store.records.damage import not_an_example
from tfio_store.example.exactness import refuse_float
from tfio_store.example.ragged import Ragged
from tfio_store.example.learned import as_floats, common_shape, raise_two_kinds, raise_two_units
from tfio_store.example.values import check_keys, expand, plain, refuse_null_step, shape_of, unit_of

include "_encode.pxi"
include "_learn.pxi"
include "_encode_columns.pxi"
include "_encode_lists.pxi"
include "_decode.pxi"
include "_task.pxi"
include "_columns.pxi"
