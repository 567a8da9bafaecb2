"""Writing whole columns: which values are record i's, and one pass to measure, one to write."""


cdef Py_ssize_t MOST_RECORDS = sys.maxsize // sizeof(int64_t)  # whose offsets can be counted


cdef class _Column:
    """One column of a table: values, and which of them are record i's."""

    cdef bytes key
    cdef ex_kind kind
    cdef const uint8_t *values
    cdef size_t itemsize
    cdef ex_bytes *strings      # owned
    cdef Py_ssize_t total
    cdef const int64_t[::1] splits
    cdef const uint8_t[::1] valid
    cdef bint ragged, nullable
    cdef size_t width
    cdef object keep

    def __cinit__(self, bytes key, values, splits, Py_ssize_t width, valid, Py_ssize_t records):
        self.key = key
        self.keep = values
        if values is None:
            self.kind = EX_NO_KIND
        elif isinstance(values, list):
            self.take_list(values)
        elif isinstance(values, tuple):
            buffer, offsets, lengths = values
            self.take_spans(buffer, offsets, lengths)
        else:
            self.take_array(values)
        self.nullable = valid is not None
        if self.nullable:
            self.valid = valid.view(np.uint8)
            if self.valid.shape[0] != records:
                raise ValueError(
                    f"feature {key.decode()!r}: {self.valid.shape[0]} flags of nulls, {records} wanted"
                )
        self.width = <size_t> width
        self.ragged = splits is not None
        if self.ragged:
            self.splits = splits
            self.check_splits(records)
        elif width < 0 or <object> records * width != self.total:  # as Python's numbers, which are exact
            raise ValueError(
                f"feature {key.decode()!r}: {self.total} values, {<object> records * width} wanted"
            )

    def __dealloc__(self):
        free(self.strings)

    cdef int take_array(self, values) except -1:
        cdef const float[::1] floats
        cdef const int64_t[::1] ints
        self.total = len(values)
        if values.dtype == np.float32:
            self.kind, self.itemsize, floats = EX_FLOAT, sizeof(float), values
            self.values = <const uint8_t *> &floats[0] if self.total else NULL
        else:
            self.kind, self.itemsize, ints = EX_INT64, sizeof(int64_t), values
            self.values = <const uint8_t *> &ints[0] if self.total else NULL
        return 0

    cdef int new_strings(self, Py_ssize_t total) except -1:
        self.kind, self.itemsize, self.total = EX_BYTES, sizeof(ex_bytes), total
        self.strings = <ex_bytes *> malloc((<size_t> total + 1) * sizeof(ex_bytes))
        if not self.strings:
            raise MemoryError
        self.values = <const uint8_t *> self.strings
        return 0

    cdef int take_list(self, list values) except -1:
        values = self.keep = list(values)
        self.new_strings(len(values))
        for i, value in enumerate(values):
            if type(value) is not bytes and type(value) is not str:
                raise TypeError(f"feature {self.key.decode()!r}: record {i} is {value!r}, not bytes or str")
            self.strings[i] = _string(self.key.decode(), value)
        return 0

    cdef int take_spans(self, buffer, const int64_t[::1] offsets, const int64_t[::1] lengths) except -1:
        cdef const uint8_t[::1] data = buffer
        cdef const uint8_t *base = &data[0] if data.shape[0] else NULL
        cdef Py_ssize_t i
        if offsets.shape[0] != lengths.shape[0]:
            raise ValueError("offsets and lengths differ in length")
        self.new_strings(offsets.shape[0])
        for i in range(self.total):
            if offsets[i] < 0 or lengths[i] < 0 or offsets[i] > data.shape[0] - lengths[i]:
                raise ValueError(f"feature {self.key.decode()!r}: value {i} lies outside its buffer")
            self.strings[i] = ex_bytes(base + offsets[i], <size_t> lengths[i])
        return 0

    cdef int check_splits(self, Py_ssize_t records) except -1:
        cdef const int64_t[::1] splits = self.splits
        cdef Py_ssize_t i
        cdef bint good = splits.shape[0] > 0 and splits.shape[0] - 1 == records and splits[0] == 0
        if good:
            good = splits[records] == self.total
            for i in range(records):
                good = good and splits[i] <= splits[i + 1]
        if not good:
            raise ValueError(
                f"feature {self.key.decode()!r}: row_splits must be {records + 1} numbers that "
                f"rise from 0 to {self.total}"
            )
        return 0


cdef class _Table:
    """The columns of `encode_columns` as C sees them."""

    cdef ex_feature *items
    cdef const int64_t **splits
    cdef const uint8_t **bases
    cdef const uint8_t **valid  # per record whether it has the feature, or NULL
    cdef size_t *strides
    cdef size_t count
    cdef list columns

    def __cinit__(self, list columns):
        cdef _Column column
        self.columns = columns
        self.count = <size_t> len(columns)
        self.items = <ex_feature *> calloc(self.count + 1, sizeof(ex_feature))
        self.splits = <const int64_t **> calloc(self.count + 1, sizeof(int64_t *))
        self.bases = <const uint8_t **> calloc(self.count + 1, sizeof(uint8_t *))
        self.strides = <size_t *> calloc(self.count + 1, sizeof(size_t))
        self.valid = <const uint8_t **> calloc(self.count + 1, sizeof(uint8_t *))
        if not (self.items and self.splits and self.bases and self.strides and self.valid):
            raise MemoryError
        for i, column in enumerate(columns):
            self.items[i].key = ex_borrow(column.key)
            self.items[i].kind = column.kind
            self.items[i].count = column.width
            self.splits[i] = &column.splits[0] if column.ragged else NULL
            self.bases[i] = column.values
            self.valid[i] = &column.valid[0] if column.nullable and column.valid.shape[0] else NULL
            self.strides[i] = column.itemsize

    def __dealloc__(self):
        free(self.items)
        free(self.splits)
        free(self.bases)
        free(self.strides)
        free(self.valid)

    cdef size_t measure(self, Py_ssize_t record) noexcept nogil:
        """Point every feature at its values of one record; the bytes of its Features message."""
        cdef size_t i
        for i in range(self.count):
            self.items[i].absent = self.valid[i] != NULL and not self.valid[i][record]
            self.point(i, record)
        return ex_measure_features(self.items, self.count)

    cdef void point(self, size_t column, Py_ssize_t row) noexcept nogil:
        cdef ex_feature *item = &self.items[column]
        cdef const int64_t *splits = self.splits[column]
        cdef size_t first = <size_t> row * item.count
        if splits:
            first = <size_t> splits[row]
            item.count = <size_t> splits[row + 1] - first
        item.values = self.bases[column] + first * self.strides[column] if self.bases[column] else NULL


cdef object _changed():
    """Where another thread writes to the arrays, there is no room for it."""
    return RuntimeError("a column changed while it was being encoded")


cdef int _check_records(Py_ssize_t records) except -1:
    if not 0 <= records < MOST_RECORDS:
        raise ValueError(f"records must be 0 to {MOST_RECORDS - 1}, not {records}")
    return 0


def encode_columns(list columns, Py_ssize_t records, /):
    _check_records(records)
    cdef _Table table = _Table([_Column(key, values, splits, width, valid, records)
                                for key, values, splits, width, valid in columns])
    offsets = np.zeros(records + 1, np.int64)
    cdef int64_t[::1] ends = offsets
    cdef Py_ssize_t i
    cdef size_t size, end = 0
    with nogil:
        for i in range(records):
            end += ex_measure_field(table.measure(i))
            ends[i + 1] = <int64_t> end
    buffer = np.empty(end, np.uint8)
    cdef uint8_t[::1] out = buffer
    if not end:
        return memoryview(buffer), offsets
    with nogil:
        for i in range(records):
            size = table.measure(i)
            if ends[i + 1] - ends[i] != <int64_t> ex_measure_field(size):
                with gil:
                    raise _changed()
            ex_put_features(ex_put_header(&out[ends[i]], EX_FEATURES, size), table.items, table.count)
    return memoryview(buffer), offsets
