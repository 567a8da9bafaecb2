# Records out of bytes.

Scan = collections.namedtuple("Scan", ["batch", "end", "fault", "need", "summed"])
Scan.__module__ = __name__
Scan.__doc__ = "What a scan found."

cdef tuple FAULTS = (None, "length_crc", "data_crc", "too_large")  # as tfrecord_fault counts them


def scan(buffer, *, start=0, bint verify=True, max_records=None, max_record_bytes=DEFAULT_MAX_RECORD_BYTES,
         summed=0):
    """Find whole records from ``start``. Length CRCs are always checked; data CRCs if ``verify``."""
    cdef _Exported memory = export(buffer, "buffer")
    cdef uint64_t limit = <uint64_t> to_count(max_record_bytes, TFRECORD_MAX_LIMIT, "max_record_bytes")
    cdef tfrecord_cursor cursor
    cdef size_t count = 0, most = memory.size // TFRECORD_OVERHEAD + 1  # more than there can be
    cdef _Index index
    cursor.offset = to_start(start, memory.size)
    cursor.sum = 0 if summed is 0 else to_crc(summed, "summed")
    if max_records is not None:
        most = <size_t> to_count(max_records, <long long> most, "max_records")
    index = new_index(tfrecord_first_room(<size_t> memory.size - cursor.offset, most))
    while True:
        scan_into(&cursor, memory, limit, verify, index, count)
        count += cursor.count
        if count < index.room or count == most:
            break
        index = grow_index(index, count, min(most, 2 * count))
    if index.room > TFRECORD_FEWEST_ENTRIES and count < index.room // 4:
        index = grow_index(index, count, max(count, <size_t> 1))  # room for others, of whom there may be many
    return tuple.__new__(Scan, (
        new_batch(memory, index, <Py_ssize_t> count), cursor.offset, FAULTS[<int> cursor.fault], cursor.need,
        cursor.sum))


cdef void scan_into(
    tfrecord_cursor *cursor, _Exported memory, uint64_t limit, bint verify, _Index index, size_t count
):
    cdef size_t size = <size_t> memory.size, room = index.room - count
    cdef const uint8_t *data = memory.data
    cdef int64_t *offsets = index.offsets + count
    cdef int64_t *lengths = index.lengths + count
    if memory.size < NOGIL_BYTES:
        tfrecord_scan(cursor, data, size, limit, verify, offsets, lengths, room)
    else:
        with nogil:
            tfrecord_scan(cursor, data, size, limit, verify, offsets, lengths, room)


def walk(buffer, *, start=0, max_record_bytes=DEFAULT_MAX_RECORD_BYTES):
    """Headers only, for indexing: (frame offsets, end, fault).

    Records' data is skipped, not checked, and the last frame may reach past the buffer:
    ``end`` is then beyond ``len(buffer)`` and says where the next header lies. A
    header that the buffer cuts leaves ``end`` at that header.
    """
    cdef _Exported memory = export(buffer, "buffer")
    cdef uint64_t limit = <uint64_t> to_count(max_record_bytes, TFRECORD_MAX_LIMIT, "max_record_bytes")
    cdef tfrecord_cursor cursor
    cdef size_t size = <size_t> memory.size, count = 0
    cdef _Index index
    cursor.offset = to_start(start, memory.size)
    index = new_index(max(<size_t> 1, tfrecord_first_room(size, size // TFRECORD_OVERHEAD + 1)))
    while True:
        with nogil:
            tfrecord_walk(&cursor, memory.data, size, limit, index.offsets + count, index.room - count)
        count += cursor.count
        if count < index.room:
            break
        index = grow_index(index, count, 2 * count)
    return index_array(index, index.offsets, <Py_ssize_t> count), cursor.offset, FAULTS[<int> cursor.fault]


def find_record(buffer, *, start=0, max_record_bytes=DEFAULT_MAX_RECORD_BYTES, bint final=False,
                patience=None):
    """Resynchronise: the offset of the first frame at or after ``start`` whose length CRC and data
    CRC hold, and True; or the first offset that more bytes could still turn into one
    (``len(buffer)`` when none, or ``final``), and False. Last of all what is left of the ``patience``:
    the bytes of frames that may turn out bad before frames of over 4 KiB are passed over. Default
    None: 16 times the buffer, and a MiB."""
    cdef _Exported memory = export(buffer, "buffer")
    cdef uint64_t limit = <uint64_t> to_count(max_record_bytes, TFRECORD_MAX_LIMIT, "max_record_bytes")
    cdef size_t offset = to_start(start, memory.size)
    cdef c_bool found = False
    cdef uint64_t left
    if patience is None:
        left = 16 * <uint64_t> memory.size + (1 << 20)
    else:
        left = <uint64_t> to_count(patience, TFRECORD_MAX_LIMIT, "patience")
    with nogil:
        offset = tfrecord_find(memory.data, <size_t> memory.size, offset, limit, final, &left, &found)
    return offset, bool(found), left
