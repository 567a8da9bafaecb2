# Bytes out of records.

# Records are framed in groups, so that the C loop has several to work on at a time.
cdef enum:
    GROUP = 128


cdef struct Group:
    PyObject *owners[GROUP]  # keep the records' memory while it is read without the GIL
    const uint8_t *data[GROUP]
    size_t sizes[GROUP]
    size_t count
    size_t nbytes  # as frames


@cython.final
cdef class FrameWriter:
    """Frames records into one growing buffer.

    A call that raises (TypeError on a str or another object without bytes) leaves the
    writer as it was. RuntimeError when one thread calls while another is inside.
    """

    cdef uint8_t *data
    cdef size_t size, capacity, reserve
    cdef Py_ssize_t count
    cdef bint busy

    def __cinit__(self, reserve=0):
        self.reserve = <size_t> max(to_count(reserve, PY_SSIZE_T_MAX, "reserve"), 4096)

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

    @cython.critical_section
    def write(self, record):
        """Frame one record; returns the framed bytes now waiting."""
        cdef Group group
        group.count = group.nbytes = 0
        add_record(&group, record)
        try:
            check_idle(self)  # only now: what gives a record's bytes may let other threads run
            put_group(self, &group)
        finally:
            drop(&group)
        return self.size

    @cython.critical_section
    def write_many(self, records):
        """Frame every record of an iterable; returns the framed bytes now waiting."""
        cdef Group group
        cdef size_t size = self.size
        cdef Py_ssize_t count = self.count
        group.count = group.nbytes = 0
        check_idle(self)
        self.busy = True  # what `records` runs must not write here
        try:
            for record in records:
                add_record(&group, record)
                if group.count == GROUP or group.nbytes >= <size_t> NOGIL_BYTES:
                    put_group(self, &group)
                    drop(&group)
            put_group(self, &group)
        except BaseException:
            self.size, self.count = size, count
            raise
        finally:
            drop(&group)
            self.busy = False
        return self.size

    @cython.critical_section
    def write_some(self, list records not None, Py_ssize_t start, enough):
        """Frame records of a list from ``start`` on, until ``enough`` framed bytes wait; returns the
        number of the next one."""
        cdef Group group
        cdef size_t size = self.size, most = <size_t> to_count(enough, PY_SSIZE_T_MAX, "enough")
        cdef Py_ssize_t count = self.count
        group.count = group.nbytes = 0
        start = <Py_ssize_t> to_start(start, len(records))
        check_idle(self)
        self.busy = True  # what gives a record's bytes must not write here
        try:
            while start < len(records) and self.size + group.nbytes < most:
                add_record(&group, records[start])
                start += 1
                if group.count == GROUP or group.nbytes >= <size_t> NOGIL_BYTES:
                    put_group(self, &group)
                    drop(&group)
            put_group(self, &group)
        except BaseException:
            self.size, self.count = size, count
            raise
        finally:
            drop(&group)
            self.busy = False
        return start

    def write_flat(self, data, offsets):
        """Frame records ``data[offsets[i]:offsets[i+1]]``, as Arrow lays strings out."""
        bounds = np.asarray(offsets)
        if bounds.size == 0:
            raise ValueError("offsets must hold one offset more than there are records, got none")
        return self.write_batch(RecordBatch(data, bounds[:-1], np.diff(bounds)))

    @cython.critical_section
    def write_batch(self, RecordBatch batch not None):
        """Frame every record of a batch; returns the framed bytes now waiting."""
        cdef size_t nbytes = <size_t> total(batch) + TFRECORD_OVERHEAD * <size_t> batch.count
        check_idle(self)
        claim(self, nbytes)
        self.busy = True
        with nogil:
            put_batch(self.data + self.size, batch.memory.data, batch.starts, batch.sizes, batch.count)
        self.busy = False
        self.size += nbytes
        self.count += batch.count
        return self.size

    def take(self):
        """The framed bytes, read-only, and start afresh. The view owns its memory."""
        cdef Buffer taken = Buffer.__new__(Buffer, 0)
        with cython.critical_section(self):
            check_idle(self)
            claim(self, 0)
            pool_give(taken.memory, taken.capacity)
            taken.memory, taken.capacity = self.data, self.capacity
            taken.data, taken.size = self.data, <Py_ssize_t> self.size
            self.reserve = max(self.reserve, min(self.size, <size_t> 16 << 20))
            self.data, self.size, self.capacity, self.count = NULL, 0, 0, 0
        return memoryview(taken).toreadonly()


cdef int check_idle(FrameWriter writer) except -1:
    if writer.busy:
        raise RuntimeError("this FrameWriter is in use, by another thread or by the records' own code")
    return 0


cdef int claim(FrameWriter writer, size_t more) except -1:
    """Room for `more` bytes behind what is written."""
    cdef size_t capacity, wanted = max(writer.reserve, max(2 * writer.size, writer.size + more))
    cdef uint8_t *larger
    if writer.data != NULL and more <= writer.capacity - writer.size:
        return 0
    larger = <uint8_t *> pool_take(wanted, &capacity)
    if larger == NULL:
        raise MemoryError(f"{writer.size + more} bytes of framed records")
    if writer.size:
        memcpy(larger, writer.data, writer.size)
    pool_give(writer.data, writer.capacity)
    writer.data, writer.capacity = larger, capacity
    return 0


cdef int refuse_array(record) except -1:
    """The memory of an array does not tell its dtype and shape, so it makes no record."""
    if hasattr(record, "dtype") and not isinstance(record, bytes):
        way = "its numpy()" if hasattr(record, "numpy") else "a dict with the array, or its tobytes()"
        raise TypeError(f"record must be bytes-like, not an array of {record.dtype}; give {way}")
    return 0


cdef int add_record(Group *group, object record) except -1:
    cdef object owner = record
    cdef _Exported exported
    if PyBytes_CheckExact(record):
        group.data[group.count] = <const uint8_t *> PyBytes_AS_STRING(record)
        group.sizes[group.count] = <size_t> PyBytes_GET_SIZE(record)
    else:
        refuse_array(record)
        owner = exported = export(record, "record")
        group.data[group.count] = exported.data
        group.sizes[group.count] = <size_t> exported.size
    Py_INCREF(owner)
    group.owners[group.count] = <PyObject *> owner
    group.nbytes += group.sizes[group.count] + TFRECORD_OVERHEAD
    group.count += 1
    return 0


cdef void drop(Group *group) noexcept:
    cdef size_t i
    for i in range(group.count):
        Py_DECREF(<object> group.owners[i])
    group.count = group.nbytes = 0


cdef int put_group(FrameWriter writer, Group *group) except -1:
    cdef bint busy = writer.busy
    claim(writer, group.nbytes)
    if group.nbytes < <size_t> NOGIL_BYTES:
        tfrecord_put(writer.data + writer.size, group.data, group.sizes, group.count)
    else:
        writer.busy = True
        with nogil:
            tfrecord_put(writer.data + writer.size, group.data, group.sizes, group.count)
        writer.busy = busy
    writer.size += group.nbytes
    writer.count += <Py_ssize_t> group.count
    return 0


cdef void put_batch(
    uint8_t *frame, const uint8_t *data, const int64_t *starts, const int64_t *sizes, Py_ssize_t count
) noexcept nogil:
    cdef const uint8_t *records[GROUP]
    cdef size_t lengths[GROUP]
    cdef size_t n = 0
    cdef Py_ssize_t i
    for i in range(count):
        records[n], lengths[n] = data + starts[i], <size_t> sizes[i]
        n += 1
        if n == GROUP or i == count - 1:
            frame = tfrecord_put(frame, records, lengths, n)
            n = 0
