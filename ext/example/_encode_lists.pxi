"""Writing columns of feature lists: which steps are record i's, and beside them its context."""


cdef class _Lists:
    """Feature lists of a table: a table of their steps, and which of these are record i's."""

    cdef _Table steps
    cdef const int64_t **splits
    cdef const uint8_t **valid      # per record whether it has the list, or NULL
    cdef size_t *sizes              # of each FeatureList message of the record measured last
    cdef size_t count
    cdef list keep

    def __cinit__(self, list columns, Py_ssize_t records):
        cdef const int64_t[::1] splits
        cdef const uint8_t[::1] valid
        self.keep = columns
        self.count = <size_t> len(columns)
        self.splits = <const int64_t **> calloc(self.count + 1, sizeof(int64_t *))
        self.valid = <const uint8_t **> calloc(self.count + 1, sizeof(uint8_t *))
        self.sizes = <size_t *> calloc(self.count + 1, sizeof(size_t))
        if not (self.splits and self.valid and self.sizes):
            raise MemoryError
        made = []
        for i, (key, values, bounds, inner, width, has) in enumerate(columns):
            splits = bounds
            _check_steps(key, splits, records)
            self.splits[i] = &splits[0]
            made.append(_Column(key, values, inner, width, None, splits[records]))
            if has is not None:
                valid = has.view(np.uint8)
                if valid.shape[0] != records:
                    raise ValueError(
                        f"feature {key.decode()!r}: {valid.shape[0]} flags of nulls, {records} wanted"
                    )
                self.valid[i] = &valid[0] if records else NULL
        self.steps = _Table(made)

    def __dealloc__(self):
        free(self.splits)
        free(self.valid)
        free(self.sizes)

    cdef bint absent(self, size_t column, Py_ssize_t record) noexcept nogil:
        return self.valid[column] != NULL and not self.valid[column][record]

    cdef size_t step(self, size_t column, Py_ssize_t step) noexcept nogil:
        """Point the column at the values of one step; the bytes of its Feature message."""
        self.steps.point(column, step)
        return ex_measure_feature(&self.steps.items[column])

    cdef size_t entry(self, size_t column) noexcept nogil:
        """The bytes of a map entry."""
        cdef size_t key = self.steps.items[column].key.size
        return ex_measure_field(key) + ex_measure_field(self.sizes[column])

    cdef size_t measure(self, Py_ssize_t record) noexcept nogil:
        """The bytes of a record's FeatureLists message."""
        cdef size_t column, size, total = 0
        cdef int64_t step
        for column in range(self.count):
            if self.absent(column, record):
                continue
            size = 0
            for step in range(self.splits[column][record], self.splits[column][record + 1]):
                size += ex_measure_field(self.step(column, step))
            self.sizes[column] = size
            total += ex_measure_field(self.entry(column))
        return total

    cdef uint8_t *put(self, uint8_t *to, Py_ssize_t record) noexcept nogil:
        """Write the message that was measured last. NULL if a column has changed since."""
        cdef size_t column, size, left
        cdef int64_t step
        for column in range(self.count):
            if self.absent(column, record):
                continue
            left = self.sizes[column]
            to = ex_put_bytes(ex_put_header(to, 1, self.entry(column)), 1, self.steps.items[column].key)
            to = ex_put_header(to, 2, left)
            for step in range(self.splits[column][record], self.splits[column][record + 1]):
                size = self.step(column, step)
                if ex_measure_field(size) > left:
                    return NULL
                left -= ex_measure_field(size)
                to = ex_put_feature(ex_put_header(to, 1, size), &self.steps.items[column])
            if left:
                return NULL
        return to


cdef int _check_steps(bytes key, const int64_t[::1] splits, Py_ssize_t records) except -1:
    cdef Py_ssize_t i
    cdef bint good = splits.shape[0] > 0 and splits.shape[0] - 1 == records and splits[0] == 0
    if good:
        for i in range(records):
            good = good and splits[i] <= splits[i + 1]
    if not good:
        raise ValueError(
            f"feature {key.decode()!r}: row_splits must be {records + 1} numbers that rise from 0"
        )
    return 0


def encode_sequence_columns(list context, list feature_lists, Py_ssize_t records, /):
    _check_records(records)
    cdef _Table table = _Table([_Column(key, values, splits, width, valid, records)
                                for key, values, splits, width, valid in context])
    cdef _Lists lists = _Lists(feature_lists, records)
    offsets = np.zeros(records + 1, np.int64)
    cdef int64_t[::1] ends = offsets
    cdef Py_ssize_t i
    cdef size_t size, inner, end = 0
    cdef uint8_t *to
    with nogil:
        for i in range(records):
            end += ex_measure_field(table.measure(i)) + ex_measure_field(lists.measure(i))
            ends[i + 1] = <int64_t> end
    buffer = np.empty(end, np.uint8)
    cdef uint8_t[::1] out = buffer
    if not end:
        return memoryview(buffer), offsets
    with nogil:
        for i in range(records):
            size, inner = table.measure(i), lists.measure(i)
            to = NULL
            if ends[i + 1] - ends[i] == <int64_t> (ex_measure_field(size) + ex_measure_field(inner)):
                to = ex_put_header(&out[ends[i]], EX_FEATURES, size)
                to = ex_put_features(to, table.items, table.count)
                to = lists.put(ex_put_header(to, EX_FEATURE_LISTS, inner), i)
            if not to:
                with gil:
                    raise _changed()
    return memoryview(buffer), offsets
