# Bytes out of records.


@cython.final
cdef class FrameWriter:
    """Frames records into one growing buffer.

    A call that raises leaves the writer as it was. Not to be shared by threads: RuntimeError
    when one calls while another is inside.
    """

    cdef uint8_t *data
    cdef size_t size, capacity, reserve
    cdef Py_ssize_t count
    cdef bint busy

    def __cinit__(self, reserve=0):
        size = operator.index(reserve)
        if size < 0:
            raise ValueError(f"reserve must not be negative, got {size}")
        if size > PY_SSIZE_T_MAX:
            raise MemoryError(f"a reserve of {size} bytes")
        self.reserve = max(<size_t> size, 4096)

    def __dealloc__(self):
        pool_give(self.data, self.capacity)

    @property
    def nbytes(self):
        """Framed bytes waiting."""
        return self.size

    @property
    def records(self):
        """Records waiting."""
        return self.count

    def write(self, record):
        """Frame one record; returns the framed bytes now waiting. TypeError on str or non-buffers."""
        put_record(self, record)
        return self.size

    def write_many(self, records):
        """Frame every record of an iterable; returns the framed bytes now waiting."""
        cdef size_t size = self.size
        cdef Py_ssize_t count = self.count
        try:
            for record in records:
                put_record(self, record)
        except BaseException:
            self.size, self.count = size, count
            raise
        return self.size

    def write_flat(self, data, offsets):
        """Frame records ``data[offsets[i]:offsets[i+1]]``, as Arrow lays strings out."""
        bounds = np.asarray(offsets)
        if bounds.size == 0:
            raise ValueError("offsets must hold one offset more than there are records, got none")
        return self.write_batch(RecordBatch(data, bounds[:-1], np.diff(bounds)))

    def write_batch(self, RecordBatch batch not None):
        """Frame every record of a batch; returns the framed bytes now waiting."""
        cdef uint8_t *end
        cdef Py_ssize_t i
        end = claim(self, <size_t> total(batch) + TFRECORD_OVERHEAD * <size_t> batch.count)
        self.busy = True
        with nogil:
            for i in range(batch.count):
                end = tfrecord_put(end, batch.memory.data + batch.starts[i], <size_t> batch.sizes[i])
        self.busy = False
        self.size = <size_t> (end - self.data)
        self.count += batch.count
        return self.size

    def take(self):
        """The framed bytes, read-only, and start afresh. The view owns its memory."""
        claim(self, 0)
        taken = memoryview(adopt(self.data, self.size, self.capacity)).toreadonly()
        self.reserve = max(self.reserve, min(self.size, <size_t> 16 << 20))
        self.data, self.size, self.capacity, self.count = NULL, 0, 0, 0
        return taken


cdef uint8_t *claim(FrameWriter writer, size_t more) except NULL:
    """Room for `more` bytes at the end of what is written."""
    cdef size_t capacity
    cdef uint8_t *larger
    if writer.busy:
        raise RuntimeError("this FrameWriter is in use by another thread")
    if writer.data == NULL or more > writer.capacity - writer.size:
        larger = <uint8_t *> pool_take(
            max(writer.reserve, max(2 * writer.size, writer.size + more)), &capacity)
        if larger == NULL:
            raise MemoryError(f"{writer.size + more} bytes of framed records")
        if writer.size:
            memcpy(larger, writer.data, writer.size)
        pool_give(writer.data, writer.capacity)
        writer.data, writer.capacity = larger, capacity
    return writer.data + writer.size


cdef int put_bytes(FrameWriter writer, const uint8_t *data, size_t size) except -1:
    cdef uint8_t *end = claim(writer, size + TFRECORD_OVERHEAD)
    if size < <size_t> NOGIL_BYTES:
        tfrecord_put(end, data, size)
    else:
        writer.busy = True
        with nogil:
            tfrecord_put(end, data, size)
        writer.busy = False
    writer.size += size + TFRECORD_OVERHEAD
    writer.count += 1
    return 0


cdef int put_record(FrameWriter writer, object record) except -1:
    cdef Py_buffer view
    if PyBytes_CheckExact(record):
        return put_bytes(
            writer, <const uint8_t *> PyBytes_AS_STRING(record), <size_t> PyBytes_GET_SIZE(record))
    get_buffer(record, &view, "record")
    try:
        return put_bytes(writer, <const uint8_t *> view.buf, <size_t> view.len)
    finally:
        PyBuffer_Release(&view)
