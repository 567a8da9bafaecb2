# Record batches, and bytes out of them.

cdef object UNCHECKED = object()  # instead of a buffer: new_batch fills the batch in


@cython.final
cdef class RecordBatch:
    """Consecutive records: one buffer, and where each record lies in it.

    ``buffer[offsets[i] : offsets[i] + lengths[i]]`` is record i, and ``batch[i]`` is a copy of it.
    A batch is immutable. Slices share the buffer, which lives as long as a batch or a view of it.
    Pickling keeps only the bytes that the records span.

    Args:
        buffer (bytes-like): The memory that holds the records.
        offsets (int array [n]): Where each record begins, in bytes.
        lengths (int array [n]): The bytes of each record.

    Raises:
        ValueError: A record lies outside ``buffer``, or the arrays are not equally long.
        TypeError: The arrays do not hold integers, or ``buffer`` holds no bytes.

    Example:
        >>> batch = tfs.RecordBatch(b"onetwo", [0, 3], [3, 3])
        >>> batch[1], batch[:1].tolist(), batch.take([1, 0]).tolist(), bytes(batch.view(0))
        (b'two', [b'one'], [b'two', b'one'], b'one')
    """

    cdef _Exported memory
    cdef _Index index  # owns what the two pointers below point into
    cdef const int64_t *starts
    cdef const int64_t *sizes
    cdef Py_ssize_t count

    def __cinit__(self, buffer, offsets, lengths):
        if buffer is UNCHECKED:
            return
        cdef _Exported starts = to_int64(offsets, "offsets")
        cdef _Exported sizes = to_int64(lengths, "lengths")
        if starts.size != sizes.size:
            raise ValueError(
                f"offsets and lengths must be equally long, got {starts.size // 8} and {sizes.size // 8}")
        self.memory = export(buffer, "buffer")
        self.count = starts.size // <Py_ssize_t> sizeof(int64_t)
        self.index = new_index(<size_t> self.count)
        memcpy(self.index.offsets, starts.data, <size_t> starts.size)
        memcpy(self.index.lengths, sizes.data, <size_t> sizes.size)
        self.starts, self.sizes = self.index.offsets, self.index.lengths
        check_bounds(self)

    @classmethod
    def from_records(cls, records):
        """Copy records into one buffer, one after the other.

        Args:
            records (Iterable[bytes-like]): The records.

        Returns:
            RecordBatch: With as many records.

        Example:
            >>> tfs.RecordBatch.from_records([b"one", b"four"]).lengths
            array([3, 4])
        """
        return join_records(records)

    @property
    def buffer(self):
        """The whole buffer (memoryview of uint8, read-only)."""
        return memoryview(self.memory)

    @property
    def offsets(self):
        """Where each record begins in ``buffer`` (int64 array [n], read-only)."""
        return index_array(self.index, self.starts, self.count)

    @property
    def lengths(self):
        """The bytes of each record (int64 array [n], read-only)."""
        return index_array(self.index, self.sizes, self.count)

    @property
    def nbytes(self):
        """The bytes of all records, without framing (int)."""
        return total(self)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if isinstance(index, slice):
            start, stop, step = index.indices(self.count)
            return slice_batch(self, start, stop, step)
        return record_at(self, to_position(self, index))

    def __iter__(self):
        cdef RecordIterator iterator = RecordIterator(iter(()))
        iterator.current = self
        return iterator

    def __eq__(self, other):
        if not isinstance(other, RecordBatch):
            return NotImplemented
        return equal(self, <RecordBatch> other)

    def __repr__(self):
        return f"<RecordBatch of {self.count} records, {total(self)} bytes>"

    def take(self, indices):
        """Choose records. The result shares the buffer.

        Args:
            indices (int array [m]): Record numbers. Negative ones count from the end.

        Returns:
            RecordBatch: With m records, in that order.

        Raises:
            IndexError: There is no such record.
        """
        cdef _Exported chosen = to_int64(indices, "indices")
        cdef Py_ssize_t i, count = chosen.size // <Py_ssize_t> sizeof(int64_t)
        cdef _Index index = new_index(<size_t> count)
        cdef int64_t at
        for i in range(count):
            at = (<const int64_t *> chosen.data)[i]
            if not -self.count <= at < self.count:
                raise IndexError(f"record {at} of a batch of {self.count}")
            at = at + self.count if at < 0 else at
            index.offsets[i], index.lengths[i] = self.starts[at], self.sizes[at]
        return new_batch(self.memory, index, count)

    def view(self, index):
        """Give one record without a copy.

        Args:
            index (int): The record's number. A negative one counts from the end.

        Returns:
            memoryview: Read-only. It keeps the buffer alive.

        Raises:
            IndexError: There is no such record.
        """
        cdef Py_ssize_t i = to_position(self, index)
        return memoryview(self.memory)[self.starts[i] : self.starts[i] + self.sizes[i]]

    def tolist(self):
        """Copy every record.

        Returns:
            list[bytes]: The records, in order.
        """
        cdef Py_ssize_t i
        return [record_at(self, i) for i in range(self.count)]

    def to_arrow(self):
        """Make an Arrow array over the same memory. Needs pyarrow.

        Returns:
            pyarrow.Array: Of type ``binary_view``, with n values.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: A record has 1 GiB or more.

        Example:
            >>> tfs.RecordBatch.from_records([b"one"]).to_arrow().to_pylist()
            [b'one']
        """
        return to_arrow(self)

    def __reduce_ex__(self, protocol):
        cdef RecordBatch compact = compact_batch(self)
        memory = pickle.PickleBuffer(compact.buffer) if protocol >= 5 else bytes(compact.buffer)
        return RecordBatch, (memory, compact.offsets, compact.lengths)


cdef int check_bounds(RecordBatch batch) except -1:
    cdef int64_t size = batch.memory.size
    cdef Py_ssize_t i
    for i in range(batch.count):
        if not (0 <= batch.starts[i] <= size and 0 <= batch.sizes[i] <= size - batch.starts[i]):
            raise ValueError(
                f"record {i} (offset {batch.starts[i]}, {batch.sizes[i]} bytes) lies outside the "
                f"buffer of {size} bytes")
    return 0


cdef RecordBatch new_batch(_Exported memory, _Index index, Py_ssize_t count):
    """A batch of records whose bounds are known to be right."""
    cdef RecordBatch batch = RecordBatch.__new__(RecordBatch, UNCHECKED, None, None)
    batch.memory, batch.index = memory, index
    batch.starts, batch.sizes = index.offsets, index.lengths
    batch.count = count
    return batch


cdef RecordBatch slice_batch(RecordBatch batch, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step):
    cdef RecordBatch part
    if step != 1:
        return batch.take(np.arange(start, stop, step))
    part = new_batch(batch.memory, batch.index, max(0, stop - start))
    part.starts, part.sizes = batch.starts + start, batch.sizes + start
    return part


cdef Py_ssize_t to_position(RecordBatch batch, object index) except -1:
    cdef Py_ssize_t position = PyNumber_AsSsize_t(index, IndexError)
    if position < 0:
        position += batch.count
    if not 0 <= position < batch.count:
        raise IndexError(f"record {index} of a batch of {batch.count}")
    return position


cdef inline bytes record_at(RecordBatch batch, Py_ssize_t i):
    return PyBytes_FromStringAndSize(<const char *> batch.memory.data + batch.starts[i], batch.sizes[i])


cdef object index_array(_Index index, const int64_t *values, Py_ssize_t count):
    if count == 0:
        return np.empty(0, np.int64)
    return np.frombuffer(index, np.int64, count, (values - index.offsets) * sizeof(int64_t))


cdef int64_t total(RecordBatch batch) noexcept:
    cdef int64_t nbytes = 0
    cdef Py_ssize_t i
    for i in range(batch.count):
        nbytes += batch.sizes[i]
    return nbytes


cdef bint equal(RecordBatch a, RecordBatch b) noexcept:
    cdef Py_ssize_t i
    if a.count != b.count:
        return False
    for i in range(a.count):
        if a.sizes[i] != b.sizes[i]:
            return False
        if memcmp(a.memory.data + a.starts[i], b.memory.data + b.starts[i], <size_t> a.sizes[i]) != 0:
            return False
    return True


cdef RecordBatch join_records(object records):
    """Copies records into one Buffer, which doubles as it fills."""
    cdef Buffer buffer = Buffer(1 << 16), larger
    cdef _Index index = new_index(256)
    cdef size_t count = 0
    cdef Py_ssize_t used = 0
    cdef Py_buffer view
    for record in records:
        if not PyBytes_CheckExact(record) and getattr(record, "dtype", "uint8") != "uint8":
            refuse_array(record)
        get_buffer(record, &view, f"record {count}")
        try:
            if count == index.room:
                index = grow_index(index, count, 2 * count)
            if view.len > buffer.size - used:
                larger = Buffer(max(2 * buffer.size, used + view.len))
                memcpy(larger.data, buffer.data, <size_t> used)
                buffer = larger
            if view.len > 0:
                memcpy(buffer.data + used, view.buf, <size_t> view.len)
            index.offsets[count], index.lengths[count] = used, view.len
            used, count = used + view.len, count + 1
        finally:
            PyBuffer_Release(&view)
    return new_batch(export(memoryview(buffer)[:used], "buffer"), index, <Py_ssize_t> count)


cdef RecordBatch compact_batch(RecordBatch batch):
    """The same records over no more bytes than they span, or than they are where gaps are wide."""
    cdef int64_t low = batch.memory.size, high = 0
    cdef Py_ssize_t i
    cdef _Index index
    for i in range(batch.count):
        low = min(low, batch.starts[i])
        high = max(high, batch.starts[i] + batch.sizes[i])
    if batch.count == 0 or high - low > 2 * (total(batch) + TFRECORD_OVERHEAD * batch.count):
        return join_records(batch)
    index = new_index(<size_t> batch.count)
    for i in range(batch.count):
        index.offsets[i], index.lengths[i] = batch.starts[i] - low, batch.sizes[i]
    return new_batch(export(memoryview(batch.memory)[low:high], "buffer"), index, batch.count)


@cython.final
cdef class RecordIterator:
    """Iterates records (bytes) of an iterator of batches; no Python code runs per record.

    A batch may also be a list of records. They are taken out of it as they are given.
    ``batches`` is asked for the next batch when one is used up. ``batch`` is the
    current one (None before the first, after the last and where `take_rest` took it) and
    ``position`` the index of the next record in it. Threads may share one; RuntimeError
    when one asks while another is fetching a batch.
    """

    cdef object batches
    cdef RecordBatch current  # one of the two is None
    cdef list owned
    cdef Py_ssize_t next_index
    cdef bint fetching

    def __cinit__(self, batches):
        self.batches = iter(batches)

    @property
    def batch(self):
        with cython.critical_section(self):
            return self.owned if self.current is None else self.current

    @property
    def position(self):
        return self.next_index

    def __iter__(self):
        return self

    @cython.critical_section
    def __next__(self):
        cdef bytes record
        while True:
            if self.current is not None and self.next_index < self.current.count:
                record = record_at(self.current, self.next_index)
                break
            if self.owned is not None and self.next_index < len(self.owned):
                record = self.owned[self.next_index]
                self.owned[self.next_index] = None
                break
            fetch_batch(self)
        self.next_index += 1
        return record

    @cython.critical_section
    def take_rest(self):
        """The current batch's records that were not given, which will not be; None if there are
        none."""
        cdef RecordBatch batch = self.current
        cdef list owned = self.owned
        cdef Py_ssize_t start = self.next_index
        self.current, self.owned, self.next_index = None, None, 0
        if owned is not None:
            return join_records(owned[start:]) if start < len(owned) else None
        if batch is None or start >= batch.count:
            return None
        return slice_batch(batch, start, batch.count, 1)


cdef int fetch_batch(RecordIterator iterator) except -1:
    if iterator.fetching:
        raise RuntimeError("another thread is fetching this RecordIterator's next batch")
    iterator.fetching = True
    try:
        batch = next(iterator.batches)
        if isinstance(batch, list):
            iterator.current, iterator.owned, iterator.next_index = None, batch, 0
        elif isinstance(batch, RecordBatch):
            iterator.current, iterator.owned, iterator.next_index = batch, None, 0
        else:
            raise TypeError(f"batches must yield RecordBatch, got {type(batch).__name__}")
    except StopIteration:
        iterator.current, iterator.owned, iterator.next_index = None, None, 0
        raise
    finally:
        iterator.fetching = False
    return 0


cdef enum:
    ARROW_WINDOW_BITS = 30  # Arrow's views hold 31-bit offsets: a new data buffer each GiB


cdef object to_arrow(RecordBatch batch):
    cdef Buffer views = Buffer(16 * batch.count)
    cdef Py_ssize_t i
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("to_arrow() needs pyarrow: pip install 'tfio_store[arrow]'") from error
    for i in range(batch.count):
        if batch.sizes[i] >= <int64_t> 1 << ARROW_WINDOW_BITS:
            raise ValueError(f"record {i} has {batch.sizes[i]} bytes, too long for binary_view")
        put_view(views.data + 16 * i, batch.memory.data, batch.starts[i], <uint32_t> batch.sizes[i])
    windows = [
        pyarrow.py_buffer(memoryview(batch.memory)[start : start + (<int64_t> 2 << ARROW_WINDOW_BITS) - 1])
        for start in range(0, batch.memory.size, <int64_t> 1 << ARROW_WINDOW_BITS)
    ]
    return pyarrow.Array.from_buffers(
        pyarrow.binary_view(), batch.count, [None, pyarrow.py_buffer(views), *windows])


cdef void put_view(uint8_t *view, const uint8_t *data, int64_t start, uint32_t length) noexcept:
    """One element of Arrow's binary_view: up to 12 bytes in place, or 4 and where all of them are."""
    cdef uint32_t[4] words
    words[0], words[1], words[2], words[3] = length, 0, 0, 0
    if length > 12:
        words[2] = <uint32_t> (start >> ARROW_WINDOW_BITS)
        words[3] = <uint32_t> (start & ((<int64_t> 1 << ARROW_WINDOW_BITS) - 1))
    memcpy(&words[1], data + start, length if length <= 12 else 4)
    memcpy(view, words, 16)
