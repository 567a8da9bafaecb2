# Records out of local files.

_tasks = PyCapsule_New(<void *> tasks_lend(), TASKS_CAPSULE, NULL)  # for the other compiled modules

cdef size_t LEAST_COUNTED = 4096


def walk_file(int descriptor, nbytes, *, max_record_bytes=DEFAULT_MAX_RECORD_BYTES):
    """As ``walk``, over the first ``nbytes`` bytes of an open file, and behind that the sums (int64) of
    the records before each frame, and of all. OSError where it can't be read."""
    cdef uint64_t limit = <uint64_t> to_count(max_record_bytes, TFRECORD_MAX_LIMIT, "max_record_bytes")
    cdef size_t size = <size_t> to_count(nbytes, PY_SSIZE_T_MAX, "nbytes")
    cdef size_t count = 0, room
    cdef tfrecord_cursor cursor
    cdef int error = 0
    cdef _Index larger, index = new_index(TFRECORD_FEWEST_ENTRIES)
    cursor.offset, cursor.sum = 0, 0
    while True:
        with nogil:  # it goes on at cursor.offset; the sums take the place of lengths
            error = tfrecord_walk_file(
                &cursor, descriptor, size, limit,
                index.offsets + count, index.lengths + count, index.room - count - 1)
        if error != 0:
            raise OSError(error, os.strerror(error))
        count += cursor.count
        if count < index.room - 1:
            break
        # As many as the file will have if it goes on like this, so that it seldom comes here again.
        # But no more than a few times what was found: a file's first records may be its shortest.
        room = <size_t> (1.1 * count * (<double> size / cursor.offset)) + TFRECORD_FEWEST_ENTRIES
        larger = new_index(max(min(room, 8 * count), 2 * count))
        memcpy(larger.offsets, index.offsets, count * sizeof(int64_t))
        memcpy(larger.lengths, index.lengths, count * sizeof(int64_t))
        index = larger
    index.lengths[count] = cursor.sum
    return (
        index_array(index, index.offsets, <Py_ssize_t> count), cursor.offset, FAULTS[<int> cursor.fault],
        index_array(index, index.lengths, <Py_ssize_t> count + 1))


@cython.final
cdef class FileScan:
    """Bytes ``start:stop`` of a file, to be read and scanned without the GIL, by this or another thread."""

    cdef tfrecord_task *made
    cdef size_t size

    def __cinit__(
        self, path, start, stop, *, records=None, bint find=False, bint cached=False, bint verify=True,
        max_record_bytes=DEFAULT_MAX_RECORD_BYTES, summed=0,
    ):
        cdef bytes name = os.fsencode(path)
        cdef size_t begin = <size_t> to_count(start, PY_SSIZE_T_MAX, "start")
        cdef uint64_t limit = <uint64_t> to_count(max_record_bytes, TFRECORD_MAX_LIMIT, "max_record_bytes")
        cdef tfrecord_span span
        self.size = <size_t> to_count(stop - start, PY_SSIZE_T_MAX, "stop - start")
        span = tfrecord_span(-1, begin, self.size, limit, verify, find, cached, 0, 0)
        self.made = tfrecord_new_task(name, &span)
        if self.made == NULL:
            raise MemoryError("a task")
        self.made.summed = to_crc(summed, "summed")
        if records is None:  # the next range may have to be joined to a record that is cut
            self.made.headroom = headroom_of(self.size)
        else:
            self.made.expected = <size_t> to_count(records, PY_SSIZE_T_MAX, "records")

    def __dealloc__(self):
        if self.made != NULL:
            task_leave(&self.made.task)

    def begin(self, threads, at_once):
        """Hand it to one of at most so many threads of C, of which so many keep a core busy. False where
        none can be started."""
        cdef size_t most = <size_t> to_count(threads, PY_SSIZE_T_MAX, "threads")
        cdef size_t most_busy = <size_t> to_count(at_once, PY_SSIZE_T_MAX, "at_once")
        cdef bint begun
        with nogil:  # to wake a thread may take this one's core
            begun = task_begin(&self.made.task, most, most_busy)
        return begun

    def begins(self, double patience):
        """Whether a thread works on it, or does so within so many seconds. Else it is left to `result`."""
        return begins(&self.made.task, patience)

    def done(self):
        """Whether `result` neither waits nor works."""
        return task_is_done(&self.made.task)

    def result(self):
        """Wait for a thread, or do it here: a `Scan`; the file's inode, time of change (ns) and size; the
        seconds that reading and scanning took. None where it can't be read, or ends before. Once only."""
        cdef tfrecord_task *made = self.made
        cdef Buffer data
        cdef _Index index
        finish(&made.task)
        if made.error == ENOMEM:
            raise MemoryError(f"{self.size} bytes of a file")
        if made.error != 0 or made.memory == NULL:
            return None
        data = adopted(made.memory, made.capacity, <Py_ssize_t> made.headroom, <Py_ssize_t> self.size)
        made.memory, made.capacity = NULL, 0
        index = _Index.__new__(_Index)
        index.offsets, index.capacity = made.offsets, made.index_capacity
        index.room, index.lengths = made.room, made.offsets + made.room
        made.offsets, made.index_capacity = NULL, 0
        batch = new_batch(export(data, "data"), index, <Py_ssize_t> made.cursor.count)
        scanned = (batch, made.cursor.offset, FAULTS[<int> made.cursor.fault], made.cursor.need, made.cursor.sum)
        mark = made.file.inode, made.file.changed, made.file.size
        return tuple.__new__(Scan, scanned), mark, (1e-9 * made.span.read_ns, 1e-9 * made.span.scan_ns)


def read_records(
    int descriptor, start, stop, *, bint verify=True, max_record_bytes=DEFAULT_MAX_RECORD_BYTES,
    enough=0, summed=0,
):
    """Whole records of an open file from ``start`` on, each read into memory of its own: the records
    (list of bytes), where the next frame begins, and what `scan` calls their sum. It ends with the record that makes them
    ``enough`` bytes, at ``stop``, and at a frame that is not whole or not good. A record counts as
    a page at least, which is what its system call costs: a list of tiny records has a bound too."""
    cdef uint64_t limit = <uint64_t> to_count(max_record_bytes, TFRECORD_MAX_LIMIT, "max_record_bytes")
    cdef size_t end = <size_t> to_count(stop, PY_SSIZE_T_MAX, "stop")
    cdef size_t at = to_start(start, <Py_ssize_t> end)
    cdef size_t most = <size_t> to_count(enough, PY_SSIZE_T_MAX, "enough"), taken = 0
    cdef uint8_t[TFRECORD_FOOTER + TFRECORD_HEADER] tail  # a footer, and the header behind it
    cdef uint8_t *header = tail + TFRECORD_FOOTER
    cdef list records = []
    cdef bytes record
    cdef int64_t length
    cdef size_t got = 0
    cdef uint32_t total = to_crc(summed, "summed")
    check_errno(tfrecord_read_data(descriptor, header, TFRECORD_HEADER, NULL, 0, at, NULL, &got))
    while got == TFRECORD_HEADER and end - at >= TFRECORD_HEADER:
        length = length_of(header, limit, end - at)
        if length < 0:
            break
        record = read_record(descriptor, tail, <size_t> length, at + TFRECORD_HEADER, verify, &got)
        if record is None:
            break
        records.append(record)
        total = crc32c_extend(total, tail, TFRECORD_FOOTER)
        at += <size_t> length + TFRECORD_OVERHEAD
        taken += max(<size_t> length, LEAST_COUNTED)
        if taken >= most:
            break
    return records, at, total


cdef int64_t length_of(const uint8_t *header, uint64_t limit, size_t room) noexcept:
    """The length of a record that a good header tells of and ``room`` bytes hold; -1 if not so."""
    cdef int64_t frame
    cdef tfrecord_cursor cursor
    cursor.offset = 0
    tfrecord_walk(&cursor, header, TFRECORD_HEADER, limit, &frame, 1)
    if cursor.count == 0 or cursor.offset > room:
        return -1
    return <int64_t> (cursor.offset - TFRECORD_OVERHEAD)


cdef bytes read_record(
    int descriptor, uint8_t *tail, size_t length, size_t offset, bint verify, size_t *got
):
    """The record at ``offset``, or None if it is not whole or not good. ``tail`` gets its footer and
    the header behind that, of which ``got`` says how much there is."""
    cdef bytes record = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> length)
    cdef uint8_t *data = <uint8_t *> PyBytes_AS_STRING(record)
    cdef uint32_t crc = 0, stored = 0
    cdef int error
    with nogil:
        error = tfrecord_read_data(
            descriptor, data, length, tail, TFRECORD_FOOTER + TFRECORD_HEADER, offset,
            &crc if verify else NULL, got)
    check_errno(error)
    if got[0] < length + TFRECORD_FOOTER:
        return None
    got[0] -= length + TFRECORD_FOOTER
    stored = load32(tail)
    return None if verify and stored != crc else record


cdef int check_errno(int error) except -1:
    if error != 0:
        raise OSError(error, os.strerror(error))
    return 0
