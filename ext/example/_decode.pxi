"""Reading tf.train.Example: where the wanted features of each record lie, and columns of them."""

cdef tuple KINDS = ("no", "bytes", "float", "int64")
cdef tuple IN_SCHEMAS = ("", "bytes", "float32", "int64")

cdef Py_ssize_t MOST = sys.maxsize // sizeof(ex_bytes)  # values whose bytes can be counted
cdef uint8_t NOTHING = 0  # an address for what has no bytes


cdef struct fixed_column:
    ex_column source
    float *floats      # where they go; NULL if they are whole numbers
    int64_t *wholes


cdef class Spans:
    """Where the wanted features of each record lie, column by column."""

    cdef object keep
    cdef const uint8_t *base
    cdef ex_bytes *slots
    cdef readonly list keys
    cdef object starts          # int64: where each record starts in the buffer, for errors
    cdef object owners          # int64: the record that each step is of, for errors; None of records
    cdef Py_ssize_t records, columns, stride
    cdef Py_ssize_t extent      # bytes of the buffer

    def __cinit__(self):
        self.slots = NULL

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.records

    cdef int reserve(self, Py_ssize_t columns, Py_ssize_t records) except -1:
        # Columns a power of two apart would share the same few sets of the cache.
        self.columns, self.records, self.stride = columns, records, records + 12
        if self.stride > MOST // (columns + 1):
            raise MemoryError(f"{columns} features of {records} records are too many")
        self.slots = <ex_bytes *> malloc(<size_t> (columns * self.stride + 1) * sizeof(ex_bytes))
        if not self.slots:
            raise MemoryError
        return 0

    @staticmethod
    def locate(buffer, offsets, lengths, keys, uint32_t map_field=EX_FEATURES):
        cdef Spans self = Spans.__new__(Spans)
        cdef const uint8_t[::1] data = buffer
        cdef const int64_t[::1] starts = offsets
        cdef const int64_t[::1] sizes = lengths
        self.base = &data[0] if data.shape[0] else &NOTHING
        self.keep, self.starts, self.keys = buffer, offsets, list(keys)
        self.extent = data.shape[0]
        self.reserve(len(self.keys), starts.shape[0])
        _check_inside(data.shape[0], starts, sizes)
        self.fill(starts, sizes, map_field)
        return self

    cdef int fill(self, const int64_t[::1] starts, const int64_t[::1] sizes, uint32_t map) except -1:
        cdef size_t count = <size_t> self.columns
        cdef ex_keys keys
        cdef ex_status status = EX_OK
        cdef Py_ssize_t i = 0
        cdef ex_bytes *names = <ex_bytes *> malloc((count + 1) * sizeof(ex_bytes))
        cdef ex_key_slot *table = <ex_key_slot *> malloc(ex_table_size(count) * sizeof(ex_key_slot))
        cdef uint32_t *next = <uint32_t *> malloc((count + 1) * sizeof(uint32_t))
        try:
            if not (names and table and next):
                raise MemoryError
            for k, name in enumerate(self.keys):
                names[k] = ex_borrow(name)
            with nogil:
                ex_keys_init(&keys, names, count, table, next)
                for i in range(starts.shape[0]):
                    status = ex_locate(&keys, ex_bytes(self.base + starts[i], <size_t> sizes[i]),
                                       map, self.slots + i, <size_t> self.stride)
                    if status:
                        break
            if status:
                raise self.corrupt(i, status)
        finally:
            free(names)
            free(table)
            free(next)
        return 0

    cdef ex_column column(self, Py_ssize_t column, const int64_t[::1] splits, Py_ssize_t width,
                          const void *fallback, valid=None) except *:
        if not 0 <= column < self.columns:
            raise IndexError(column)
        cdef ex_column result
        result.slots = self.slots + column * self.stride
        result.records = <size_t> self.records
        result.splits = NULL
        result.width = <size_t> width
        result.fallback = fallback
        result.valid = NULL if valid is None else self.flags(valid)
        if splits is not None:
            if splits.shape[0] != self.records + 1:
                raise ValueError("splits must have one place more than there are records")
            result.splits = &splits[0]
        return result

    cdef uint8_t *flags(self, valid) except? NULL:
        cdef uint8_t[::1] flags = valid.view(np.uint8)
        if flags.shape[0] != self.records:
            raise ValueError("valid must have a place for each record")
        return &flags[0] if self.records else NULL  # the caller holds the array

    cdef Py_ssize_t room(self, Py_ssize_t column, const ex_column *source, ex_kind kind) except -1:
        """How many places a reader will write to.

        Widths come from schemas, and schemas from files: one that the records can't fill is
        refused before memory is set aside for it.
        """
        cdef Py_ssize_t width = <Py_ssize_t> source.width, i
        cdef Py_ssize_t least = 4 if kind == EX_FLOAT else 2 if kind == EX_BYTES else 1
        cdef ex_status status
        cdef size_t count
        if source.splits:
            if source.splits[0] != 0:
                raise ValueError("splits must start at 0")
            for i in range(self.records):
                if source.splits[i] > source.splits[i + 1]:
                    raise ValueError("splits must rise")
            if source.splits[self.records] > MOST:
                raise MemoryError(f"{source.splits[self.records]} values are too many")
            return source.splits[self.records]
        if width < 0:
            raise ValueError("width must not be negative")
        total = <object> width * self.records
        if not (source.fallback or source.valid) and total * least > self.extent:
            for i in range(self.records):
                status = ex_count(source.slots[i], kind, &count)
                if status or count != source.width:
                    raise self.mismatch(column, <size_t> i, status or EX_COUNT, kind, width)
        if total > MOST:
            raise MemoryError(f"{total} values are too many")
        return total

    def counts(self, Py_ssize_t column, int kind):
        if kind < <int> EX_BYTES or kind > <int> EX_INT64:  # as signed numbers, which enums are not
            raise ValueError(f"kind must be 1 to 3, not {kind}")
        counts = np.empty(self.records, np.int64)
        cdef int64_t[::1] out = counts
        cdef ex_column source = self.column(column, None, 0, NULL)
        cdef size_t failed = 0
        cdef ex_status status = EX_OK
        if self.records:
            with nogil:
                status = ex_count_column(&source, <ex_kind> kind, &out[0], &failed)
        if status:
            raise self.mismatch(column, failed, status, kind, -1)
        return counts

    def present(self, Py_ssize_t column):
        found = np.empty(self.records, bool)
        cdef uint8_t[::1] out = found.view(np.uint8)
        cdef ex_column source = self.column(column, None, 0, NULL)
        cdef Py_ssize_t i
        for i in range(self.records):
            out[i] = source.slots[i].data != NULL
        return found

    def floats(self, Py_ssize_t column, *, splits=None, Py_ssize_t width=1, fallback=None, valid=None):
        cdef const float[::1] default = fallback
        cdef const void *place = _place(default is not None, width, 0 if default is None else default.shape[0],
                                        &default[0] if default is not None and default.shape[0] else NULL)
        cdef ex_column source = self.column(column, splits, width, place, valid)
        out = np.empty(self.room(column, &source, EX_FLOAT), np.float32)
        cdef float[::1] to = out
        cdef float nowhere
        cdef float *start = &to[0] if to.shape[0] else &nowhere
        cdef size_t failed = 0
        cdef ex_status status
        with nogil:
            status = ex_read_floats(&source, start, &failed)
        if status:
            raise self.mismatch(column, failed, status, EX_FLOAT, _wanted(&source, failed))
        return out

    def int64s(self, Py_ssize_t column, *, splits=None, Py_ssize_t width=1, fallback=None, valid=None):
        cdef const int64_t[::1] default = fallback
        cdef const void *place = _place(default is not None, width, 0 if default is None else default.shape[0],
                                        &default[0] if default is not None and default.shape[0] else NULL)
        cdef ex_column source = self.column(column, splits, width, place, valid)
        out = np.empty(self.room(column, &source, EX_INT64), np.int64)
        cdef int64_t[::1] to = out
        cdef int64_t nowhere
        cdef int64_t *start = &to[0] if to.shape[0] else &nowhere
        cdef size_t failed = 0
        cdef ex_status status
        with nogil:
            status = ex_read_int64s(&source, start, &failed)
        if status:
            raise self.mismatch(column, failed, status, EX_INT64, _wanted(&source, failed))
        return out

    def fixed(self, list columns, list widths, list kinds):
        cdef Py_ssize_t count = len(columns), k
        cdef size_t failed = 0
        cdef ex_status status = EX_OK
        cdef float[::1] floats
        cdef int64_t[::1] wholes
        cdef list found = []
        cdef fixed_column *work
        for width, kind in zip(widths, kinds):
            total = width * self.records
            if not 0 < total <= MOST or total * (4 if kind == <int> EX_FLOAT else 1) > self.extent:
                return None  # `room` looks closer before it takes memory
            found.append(np.empty(total, np.float32 if kind == <int> EX_FLOAT else np.int64))
        work = <fixed_column *> malloc((<size_t> count + 1) * sizeof(fixed_column))
        try:
            if not work:
                raise MemoryError
            for k in range(count):
                work[k].source = self.column(columns[k], None, widths[k], NULL)
                work[k].floats, work[k].wholes = NULL, NULL
                if kinds[k] == <int> EX_FLOAT:
                    floats = found[k]
                    work[k].floats = &floats[0]
                else:
                    wholes = found[k]
                    work[k].wholes = &wholes[0]
            with nogil:
                for k in range(count):
                    if work[k].floats:
                        status = ex_read_floats(&work[k].source, work[k].floats, &failed)
                    else:
                        status = ex_read_int64s(&work[k].source, work[k].wholes, &failed)
                    if status:
                        break
        finally:
            free(work)
        return None if status else found

    cdef ex_bytes *strings(self, Py_ssize_t column, splits, Py_ssize_t width, list fallback, valid,
                           Py_ssize_t *total) except NULL:
        """Where each value lies; the caller frees it. Fallbacks point into `fallback`'s items."""
        cdef size_t failed = 0
        cdef ex_status status
        cdef ex_bytes *out = NULL
        cdef Py_ssize_t given = 0 if fallback is None else len(fallback)
        cdef ex_bytes *defaults = <ex_bytes *> malloc((<size_t> given + 1) * sizeof(ex_bytes))
        cdef ex_column source
        try:
            if not defaults:
                raise MemoryError
            for i in range(given):
                defaults[i] = ex_borrow(fallback[i])
            source = self.column(
                column, splits, width, _place(fallback is not None, width, given, defaults), valid)
            total[0] = self.room(column, &source, EX_BYTES)
            out = <ex_bytes *> malloc((<size_t> total[0] + 1) * sizeof(ex_bytes))
            if not out:
                raise MemoryError
            with nogil:
                status = ex_read_bytes(&source, out, &failed)
            if status:
                raise self.mismatch(column, failed, status, EX_BYTES, _wanted(&source, failed))
        except BaseException:
            free(out)
            raise
        finally:
            free(defaults)
        return out

    def objects(self, Py_ssize_t column, *, splits=None, Py_ssize_t width=1, list fallback=None, valid=None):
        cdef Py_ssize_t total, i
        cdef ex_bytes *found = self.strings(column, splits, width, fallback, valid, &total)
        try:
            out = np.empty(total, object)
            _make_objects(found, total, out)
        finally:
            free(found)
        return out

    def spans(self, Py_ssize_t column, *, splits=None, Py_ssize_t width=1, valid=None):
        cdef Py_ssize_t total, i
        cdef ex_bytes *found = self.strings(column, splits, width, None, valid, &total)
        cdef int64_t[::1] starts, sizes
        try:
            starts = offsets = np.empty(total, np.int64)
            sizes = lengths = np.empty(total, np.int64)
            with nogil:
                for i in range(total):
                    starts[i] = found[i].data - self.base if found[i].data else 0
                    sizes[i] = <int64_t> found[i].size
        finally:
            free(found)
        return offsets, lengths

    def joined(self, Py_ssize_t column, *, splits=None, Py_ssize_t width=1, list fallback=None, valid=None):
        cdef Py_ssize_t total, i
        cdef ex_bytes *found = self.strings(column, splits, width, fallback, valid, &total)
        cdef int64_t[::1] ends
        cdef uint8_t[::1] to
        try:
            ends = offsets = np.zeros(total + 1, np.int64)
            with nogil:
                for i in range(total):
                    ends[i + 1] = ends[i] + <int64_t> found[i].size
            to = data = np.empty(ends[total], np.uint8)
            with nogil:
                for i in range(total):
                    if found[i].size:
                        memcpy(&to[ends[i]], found[i].data, found[i].size)
        finally:
            free(found)
        return data, offsets

    def steps(self, Py_ssize_t column):
        cdef Spans inner = Spans.__new__(Spans)
        cdef ex_column source = self.column(column, None, 0, NULL)
        splits = np.zeros(self.records + 1, np.int64)
        cdef int64_t[::1] ends = splits
        cdef ex_bytes left
        cdef ex_status status
        cdef size_t count
        cdef Py_ssize_t i
        for i in range(self.records):
            left = source.slots[i]
            status = ex_steps(&left, NULL, SIZE_MAX, &count)
            if status:
                raise self.corrupt(i, status)
            ends[i + 1] = ends[i] + <int64_t> count
        inner.keep, inner.base, inner.keys = self.keep, self.base, [self.keys[column]]
        inner.extent = self.extent
        inner.starts = np.repeat(self.starts, np.diff(splits))
        inner.owners = np.repeat(np.arange(self.records), np.diff(splits))
        inner.reserve(1, ends[self.records])
        for i in range(self.records):
            left = source.slots[i]
            ex_steps(&left, inner.slots + ends[i], <size_t> (ends[i + 1] - ends[i]), &count)
        return splits, inner

    cdef object corrupt(self, Py_ssize_t record, ex_status status):
        reason = ex_reason(status).decode()
        number = record if self.owners is None else self.owners[record]
        return not_an_example(reason, offset=int(self.starts[record]), record=number)

    cdef object mismatch(self, Py_ssize_t column, size_t record, ex_status status, int kind,
                         Py_ssize_t wanted):
        """Why one feature of one record can't be read as asked; off the fast path."""
        cdef ex_bytes feature = self.slots[column * self.stride + <Py_ssize_t> record]
        cdef ex_kind found
        cdef size_t count
        if status not in (EX_MISSING, EX_KIND, EX_COUNT):
            return self.corrupt(<Py_ssize_t> record, status)
        if status == EX_MISSING:
            reason = "is missing, and the schema has no default for it"
        elif status == EX_KIND:
            ex_kind_of(feature, &found)
            reason = (
                f"holds {KINDS[<int> found]} values, where {KINDS[kind]} is wanted; its dtype in "
                f"the schema must be {IN_SCHEMAS[<int> found]!r}"
            )
        else:
            ex_count(feature, <ex_kind> kind, &count)
            reason = f"holds {count} values, where {wanted} are wanted"
        return SchemaError(reason, feature=self.keys[column].decode("utf-8", "replace"), record=record)


cdef const void *_place(bint given, Py_ssize_t width, Py_ssize_t size, const void *at) except? NULL:
    """A fallback's memory. One of no values is a fallback all the same, so not NULL."""
    if not given:
        return NULL
    if size != width:
        raise ValueError(f"fallback has {size} values, {width} wanted")
    return at if size else &NOTHING


cdef Py_ssize_t _wanted(const ex_column *column, size_t record) noexcept:
    if column.splits:
        return column.splits[record + 1] - column.splits[record]
    return <Py_ssize_t> column.width


cdef int _check_inside(Py_ssize_t size, const int64_t[::1] starts, const int64_t[::1] sizes) except -1:
    cdef Py_ssize_t i
    if starts.shape[0] != sizes.shape[0]:
        raise ValueError("offsets and lengths differ in length")
    for i in range(starts.shape[0]):
        if starts[i] < 0 or sizes[i] < 0 or starts[i] > size - sizes[i]:
            raise ValueError(f"record {i} lies outside the buffer")
    return 0


cdef int _make_objects(const ex_bytes *found, Py_ssize_t total, object[::1] to) except -1:
    cdef Py_ssize_t i
    for i in range(total):
        to[i] = PyBytes_FromStringAndSize(<const char *> found[i].data, <Py_ssize_t> found[i].size)
    return 0


def describe(record, /):
    """(key, kind, count) of every feature of one record, in the order met."""
    cdef const uint8_t[::1] data = record
    cdef ex_walk walk
    cdef ex_bytes key, value
    cdef ex_kind kind
    cdef size_t count
    cdef const uint8_t *base = &data[0] if data.shape[0] else &NOTHING
    ex_walk_init(&walk, ex_bytes(base, <size_t> data.shape[0]))
    found = []
    while True:
        _whole(ex_walk_next(&walk, EX_FEATURES, &key, &value))
        if not key.data:
            return found
        _whole(_kind_and_count(value, &kind, &count))
        found.append((PyBytes_FromStringAndSize(<const char *> key.data, <Py_ssize_t> key.size),
                      <int> kind, count))


def describe_lists(record, /):
    """(key, kinds, counts) of every feature list of one record, an entry for each step."""
    cdef const uint8_t[::1] data = record
    cdef ex_walk walk
    cdef ex_bytes key, value
    cdef const uint8_t *base = &data[0] if data.shape[0] else &NOTHING
    ex_walk_init(&walk, ex_bytes(base, <size_t> data.shape[0]))
    found = []
    while True:
        _whole(ex_walk_next(&walk, EX_FEATURE_LISTS, &key, &value))
        if not key.data:
            return found
        name = PyBytes_FromStringAndSize(<const char *> key.data, <Py_ssize_t> key.size)
        found.append((name, *_describe_steps(value)))


cdef tuple _describe_steps(ex_bytes feature_list):
    cdef size_t steps, count
    cdef Py_ssize_t i
    cdef ex_kind kind
    cdef uint8_t[::1] to_kinds
    cdef int64_t[::1] to_counts
    cdef ex_bytes left = feature_list
    _whole(ex_steps(&left, NULL, SIZE_MAX, &steps))
    cdef ex_bytes *at = <ex_bytes *> malloc((steps + 1) * sizeof(ex_bytes))
    try:
        if not at:
            raise MemoryError
        left = feature_list
        ex_steps(&left, at, steps, &steps)
        to_kinds = kinds = np.empty(steps, np.uint8)
        to_counts = counts = np.empty(steps, np.int64)
        for i in range(<Py_ssize_t> steps):
            _whole(_kind_and_count(at[i], &kind, &count))
            to_kinds[i], to_counts[i] = <uint8_t> kind, <int64_t> count
    finally:
        free(at)
    return kinds, counts


cdef ex_status _kind_and_count(ex_bytes feature, ex_kind *kind, size_t *count) noexcept:
    cdef ex_status status = ex_kind_of(feature, kind)
    count[0] = 0
    return status if status or kind[0] == EX_NO_KIND else ex_count(feature, kind[0], count)


cdef int _whole(ex_status status) except -1:
    if status:
        raise not_an_example(ex_reason(status).decode())
    return 0
