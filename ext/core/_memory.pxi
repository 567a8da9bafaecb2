# Memory: the pooled Buffer, other people's buffers held exported, and index arrays.


_pool = PyCapsule_New(<void *> pool_lend(), POOL_CAPSULE, NULL)  # for the other compiled modules


def pool_kept():
    """Bytes of memory that the process keeps for reuse."""
    return _pool_kept()


def pool_serve(threads, budget):
    """So many threads work for a reader with a budget of so many bytes: of what they let go of, as much
    is kept for reuse."""
    _pool_serve(<size_t> to_count(threads, PY_SSIZE_T_MAX, "threads"),
                <size_t> to_count(budget, PY_SSIZE_T_MAX, "budget"))


cdef enum:
    FEWEST_WITH_HEADROOM = 64 << 10


cdef struct run:
    const uint8_t *data
    size_t size


@cython.final
cdef class Buffer:
    """A fixed-size writable block of memory from a pool; exports the buffer protocol.

    Its content is arbitrary at first. When it and all views of it are gone, the memory
    goes back to a bounded process-wide pool, so that a reader that fills one chunk
    after another does not pay the page faults of fresh memory.
    """

    cdef uint8_t *memory
    cdef size_t capacity  # of all the memory, as the pool wants to hear it
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t headroom  # unseen bytes in front of data, for prepend()

    def __cinit__(self, nbytes):
        self.size = to_count(nbytes, PY_SSIZE_T_MAX, "nbytes")
        self.headroom = <Py_ssize_t> headroom_of(<size_t> self.size)
        self.memory = <uint8_t *> pool_take(<size_t> (self.headroom + self.size), &self.capacity)
        if self.memory == NULL:
            raise MemoryError(f"a Buffer of {nbytes} bytes")
        self.data = self.memory + self.headroom

    def __dealloc__(self):
        pool_give(self.memory, self.capacity)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)

    def __reduce__(self):
        raise TypeError("a Buffer can't be pickled; pickle its bytes")


cdef size_t headroom_of(size_t size) noexcept:
    """Memory that is never touched costs nothing."""
    return size // 2 if FEWEST_WITH_HEADROOM <= size <= <size_t> PY_SSIZE_T_MAX // 2 else 0


cdef Buffer adopted(uint8_t *memory, size_t capacity, Py_ssize_t headroom, Py_ssize_t size):
    """A Buffer of memory of the pool, which it gives back."""
    cdef Buffer buffer = Buffer(0)
    pool_give(buffer.memory, buffer.capacity)
    buffer.memory, buffer.capacity, buffer.headroom, buffer.size = memory, capacity, headroom, size
    buffer.data = memory + headroom
    return buffer


@cython.final
cdef class _Exported:
    """Somebody's buffer, held exported (hence neither freed nor resized) and shown read-only."""

    cdef Py_buffer view
    cdef const uint8_t *data
    cdef Py_ssize_t size

    def __dealloc__(self):
        PyBuffer_Release(&self.view)  # does nothing where the export failed

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, <void *> self.data, self.size, 1, flags)


cdef int get_buffer(object source, Py_buffer *view, str name) except -1:
    try:
        PyObject_GetBuffer(source, view, PyBUF_SIMPLE)
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, not {type(source).__name__}") from None
    except BufferError as error:
        raise ValueError(f"{name} must be one contiguous run of bytes: {error}") from None
    return 0


cdef _Exported export(object source, str name):
    cdef _Exported exported
    if type(source) is _Exported:
        return <_Exported> source
    exported = _Exported.__new__(_Exported)
    get_buffer(source, &exported.view, name)
    exported.data = <const uint8_t *> exported.view.buf
    exported.size = exported.view.len
    return exported


def prepend(head, body):
    """``head`` and ``body`` as one read-only run of bytes without copying ``body``, if it is the
    beginning of a `Buffer` with room in front of it; else None. Once for each Buffer."""
    cdef _Exported joined, front = export(head, "head")
    cdef Buffer buffer
    owner = body.obj if type(body) is memoryview else None
    if type(owner) is not Buffer:
        return None
    joined, buffer = export(body, "body"), <Buffer> owner
    with cython.critical_section(buffer):
        if joined.data != buffer.data or front.size > buffer.headroom:
            return None
        buffer.headroom = 0
    joined.data -= front.size
    joined.size += front.size
    memcpy(<void *> joined.data, front.data, <size_t> front.size)
    return memoryview(joined)


def joined(pieces):
    """The bytes of all pieces, end to end, in a `Buffer`. They are copied without the GIL."""
    cdef list held = [export(each, "pieces") for each in pieces]
    cdef _Exported piece
    cdef size_t count = <size_t> len(held), total = 0, i
    cdef Buffer whole
    cdef uint8_t *to
    cdef run *runs = <run *> malloc((count + 1) * sizeof(run))
    if runs == NULL:
        raise MemoryError(f"{count} pieces")
    try:
        for i in range(count):
            piece = <_Exported> held[i]
            runs[i] = run(piece.data, <size_t> piece.size)
            total += runs[i].size
        whole = Buffer(total)
        to = whole.data
        with nogil:
            for i in range(count):
                memcpy(to, runs[i].data, runs[i].size)
                to += runs[i].size
    finally:
        free(runs)
    return memoryview(whole)


@cython.final
cdef class _Index:
    """Two arrays of int64, from the pool, shown read-only as one after the other."""

    cdef int64_t *offsets
    cdef int64_t *lengths
    cdef size_t room  # entries that each of the two has room for
    cdef size_t capacity

    def __dealloc__(self):
        pool_give(self.offsets, self.capacity)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.offsets, <Py_ssize_t> (2 * self.room * sizeof(int64_t)), 1, flags)


cdef _Index new_index(size_t room):
    cdef _Index index = _Index.__new__(_Index)
    if room > <size_t> PY_SSIZE_T_MAX // (2 * sizeof(int64_t)):
        raise MemoryError(f"an index of {room} records")
    index.offsets = <int64_t *> pool_take(2 * room * sizeof(int64_t), &index.capacity)
    if index.offsets == NULL:
        raise MemoryError(f"an index of {room} records")
    index.room = room
    index.lengths = index.offsets + room
    return index


cdef _Index grow_index(_Index index, size_t used, size_t room):
    cdef _Index larger = new_index(room)
    memcpy(larger.offsets, index.offsets, used * sizeof(int64_t))
    memcpy(larger.lengths, index.lengths, used * sizeof(int64_t))
    return larger


cdef _Exported to_int64(object values, str name):
    """The int64s of a one-dimensional array of integers, or an error that names the argument."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    if array.size and array.dtype.kind == "u" and int(array.max()) > 2**63 - 1:
        raise ValueError(f"{name} must be below 2**63, got {array.max()}")
    return export(np.ascontiguousarray(array, dtype=np.int64), name)


cdef long long to_count(object value, long long most, str name) except -1:
    """A number of bytes or records, at most `most`; negative ones are refused."""
    cdef int overflow = 0
    cdef long long count = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow < 0 or (count < 0 and overflow == 0):
        raise ValueError(f"{name} must not be negative, got {value}")
    return most if overflow > 0 else min(count, most)


cdef size_t to_start(object start, Py_ssize_t size) except? 0:
    cdef int overflow = 0
    cdef long long at = PyLong_AsLongLongAndOverflow(start, &overflow)
    if overflow != 0 or not 0 <= at <= size:
        raise ValueError(f"start must be within the buffer's {size} bytes, got {start}")
    return <size_t> at
