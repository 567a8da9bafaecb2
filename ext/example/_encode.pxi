"""Writing tf.train.Example: Python values to `ex_feature` (a key, a kind, a count, a pointer), so that
C measures and writes each record once, straight into its final bytes."""

cdef object _ndarray = np.ndarray
cdef object _integer = np.integer
cdef object _floating = np.floating
cdef object _timedelta64 = np.timedelta64   # which numpy calls an integer


# ---- one record ------------------------------------------------

cdef class _Features:
    """The features of one message, their values borrowed from objects kept alive here."""

    cdef ex_feature *items
    cdef void **owned           # one allocation per feature, or NULL
    cdef int64_t *scalars       # room for one 8-byte value per feature
    cdef ex_bytes *strings      # room for one string per feature
    cdef uint8_t *dims          # per feature: 0 a scalar, 1 a list, 2 told of in `shapes`
    cdef Py_ssize_t count, room
    cdef list keep
    cdef list names             # of all, in order
    cdef dict shapes            # by feature: its shape, and the dtype of times or None

    def __cinit__(self, Py_ssize_t room):
        self.room = room
        self.keep = []
        self.shapes = {}
        self.dims = <uint8_t *> calloc(<size_t> room + 1, 1)
        self.items = <ex_feature *> calloc(<size_t> room + 1, sizeof(ex_feature))
        self.owned = <void **> calloc(<size_t> room + 1, sizeof(void *))
        self.scalars = <int64_t *> malloc((<size_t> room + 1) * sizeof(int64_t))
        self.strings = <ex_bytes *> malloc((<size_t> room + 1) * sizeof(ex_bytes))
        if not (self.items and self.owned and self.scalars and self.strings and self.dims):
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.owned:
            for i in range(self.room):
                free(self.owned[i])
        free(self.dims)
        free(self.items)
        free(self.owned)
        free(self.scalars)
        free(self.strings)

    cdef int add(self, object name, object value) except -1:
        self.keep.append(name)
        self.items[self.count].key = _utf8(name)
        self.fill(name, value)
        self.count += 1
        return 0

    cdef int fill(self, object name, object value) except -1:
        """Scalars, flat lists and contiguous float32 and int64 arrays go in as they are;
        `plain` makes one of these of everything else, or says why it can't."""
        cdef ex_feature *item = &self.items[self.count]
        cdef type kind = type(value)
        item.count = 1
        if kind is int or kind is bool:
            item.kind = EX_INT64
            item.values = &self.scalars[self.count]
            self.scalars[self.count] = _int64(name, value)
        elif kind is float:
            item.kind = EX_FLOAT
            item.values = &self.scalars[self.count]
            (<float *> &self.scalars[self.count])[0] = _float32(name, value)
        elif kind is bytes or kind is str:
            item.kind = EX_BYTES
            item.values = &self.strings[self.count]
            self.strings[self.count] = _string(name, value)
            self.keep.append(value)
        elif kind is _ndarray:
            self.fill_array(name, value)
        elif kind is list or kind is tuple:
            self.fill_list(name, tuple(value))
        elif isinstance(value, _integer) and not isinstance(value, _timedelta64):
            self.fill(name, int(value))
        elif isinstance(value, _floating) and value.itemsize <= 8:
            self.fill(name, float(value))
        else:
            self.fill_plain(name, value)
        return 0

    cdef int fill_plain(self, object name, object value) except -1:
        self.dims[self.count] = 2
        self.shapes[self.count] = shape_of(value), unit_of(value)
        value = plain(name, value)
        if value is None:
            self.items[self.count].absent = True
            return 0
        if type(value) is _ndarray:
            return self.borrow(memoryview(value))
        self.fill_list(name, tuple(value))
        if type(value) is list:  # of strings, though it may hold none
            self.items[self.count].kind = EX_BYTES
        return 0

    cdef int fill_array(self, object name, object value) except -1:
        try:
            view = memoryview(value)
        except (ValueError, BufferError):  # a dtype that the buffer protocol does not know
            return self.fill_plain(name, value)
        buffer = PyMemoryView_GET_BUFFER(view)
        # One letter is a native type; what the wire has is float32 ("f") and int64 ("l", "q").
        known = strcmp(buffer.format, "f") == 0 or (
            buffer.itemsize == 8
            and (strcmp(buffer.format, "l") == 0 or strcmp(buffer.format, "q") == 0))
        if known and PyBuffer_IsContiguous(buffer, b"C"):
            self.dims[self.count] = <uint8_t> min(buffer.ndim, 2)
            if buffer.ndim > 1:
                self.shapes[self.count] = value.shape, None
            return self.borrow(view)
        return self.fill_plain(name, value)

    cdef int borrow(self, object view) except -1:
        """A contiguous float32 or int64 buffer."""
        cdef ex_feature *item = &self.items[self.count]
        buffer = PyMemoryView_GET_BUFFER(view)
        item.kind = EX_FLOAT if buffer.itemsize == 4 else EX_INT64
        item.count = <size_t> (buffer.len // buffer.itemsize)
        item.values = buffer.buf
        self.keep.append(view)
        return 0

    cdef int fill_list(self, object name, tuple values) except -1:
        cdef ex_feature *item = &self.items[self.count]
        cdef size_t size = <size_t> len(values)
        item.count = size
        if not self.dims[self.count]:
            self.dims[self.count] = 1
        if not size:
            item.kind = EX_NO_KIND
            return 0
        cdef void *room = malloc(size * sizeof(ex_bytes))
        if not room:
            raise MemoryError
        self.owned[self.count] = room
        item.values = room
        self.keep.append(values)
        cdef type kind = type(values[0])
        if kind is int or kind is bool:
            if not _all_ints(name, values, <int64_t *> room):
                return self.fill_nested(name, values)
            item.kind = EX_INT64
        elif kind is float:
            if not _all_floats(name, values, <float *> room):
                return self.fill_nested(name, values)
            item.kind = EX_FLOAT
        elif kind is bytes or kind is str:
            if not _all_strings(name, values, <ex_bytes *> room):
                return self.fill_nested(name, values)
            item.kind = EX_BYTES
        else:
            return self.fill_nested(name, values)
        return 0

    cdef int fill_nested(self, object name, tuple values) except -1:
        free(self.owned[self.count])
        self.owned[self.count] = NULL
        return self.fill_plain(name, values)


cdef ex_bytes _utf8(object name) except *:
    cdef Py_ssize_t size
    cdef const char *text = PyUnicode_AsUTF8AndSize(name, &size)
    return ex_bytes(<const uint8_t *> text, <size_t> size)


cdef ex_bytes _string(object name, object value) except *:
    """The bytes of an exact bytes or str, valid while it lives."""
    if type(value) is bytes:
        return ex_borrow(value)
    try:
        return _utf8(value)
    except UnicodeEncodeError as error:
        raise ValueError(f"feature {name!r}: the text is not valid Unicode: {error}") from None


cdef int64_t _int64(object name, object value) except? -1:
    cdef int overflow = 0
    cdef long long result = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise ValueError(f"feature {name!r}: {value} does not fit int64")
    return result


cdef bint _all_ints(object name, tuple values, int64_t *out) except -1:
    cdef Py_ssize_t i
    for i, value in enumerate(values):
        if type(value) is not int and type(value) is not bool:
            return False
        out[i] = _int64(name, value)
    return True


cdef float _float32(object name, double value) except? -1:
    """The number rounded. ValueError for one beyond the range of float32."""
    cdef float result = <float> value
    if result != value and value == value and (
            not result or result > FLT_MAX or result < -FLT_MAX):
        refuse_float(name, value)
    return result


cdef bint _all_floats(object name, tuple values, float *out) except -1:
    cdef Py_ssize_t i
    for i, value in enumerate(values):
        if type(value) is not float:
            return False
        out[i] = _float32(name, value)
    return True


cdef bint _all_strings(object name, tuple values, ex_bytes *out) except -1:
    cdef Py_ssize_t i
    for i, value in enumerate(values):
        if type(value) is not bytes and type(value) is not str:
            return False
        out[i] = _string(name, value)
    return True


cdef _Features _features(object mapping):
    if type(mapping) is not dict or any_ragged(mapping):
        mapping = expand(mapping)
    return _features_of(mapping, None)


cdef _Features _features_of(object mapping, list keys):
    """`keys`: the names in order, if they are known."""
    if keys is None:
        try:
            keys = sorted(mapping)
        except TypeError:
            keys = None
        if keys is None or (keys and type(keys[0]) is not str):
            check_keys(mapping)
            keys = sorted(mapping)
    cdef _Features features = _Features(len(keys))
    features.names = keys
    for key in keys:
        if type(key) is not str:
            check_keys(mapping)
        features.add(key, mapping[key])
    return features


cdef bint any_ragged(dict mapping) except -1:
    for value in mapping.values():
        if type(value) is Ragged:
            return True
    return False


def encode_example(features, /):
    return _example_of(_features(features))


cdef bytes _example_of(_Features ready):
    cdef size_t size = ex_measure_features(ready.items, <size_t> ready.count)
    record = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> ex_measure_field(size))
    cdef uint8_t *to = <uint8_t *> PyBytes_AS_STRING(record)
    ex_put_features(ex_put_header(to, EX_FEATURES, size), ready.items, <size_t> ready.count)
    return record


cdef bytes _feature_list(str name, object steps):
    """One FeatureList message: the steps in order."""
    cdef _Features ready = _Features(len(steps))
    cdef size_t size = 0
    cdef Py_ssize_t i
    for step in steps:
        ready.fill(name, step)
        if ready.items[ready.count].absent:
            refuse_null_step(name)
        size += ex_measure_field(ex_measure_feature(&ready.items[ready.count]))
        ready.count += 1
    message = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> size)
    cdef uint8_t *to = <uint8_t *> PyBytes_AS_STRING(message)
    for i in range(ready.count):
        to = ex_put_header(to, 1, ex_measure_feature(&ready.items[i]))
        to = ex_put_feature(to, &ready.items[i])
    return message


cdef bytes _field(uint32_t number, bytes body):
    cdef ex_bytes content = ex_borrow(body)
    field = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> ex_measure_field(content.size))
    ex_put_bytes(<uint8_t *> PyBytes_AS_STRING(field), number, content)
    return field


def encode_sequence_example(context, feature_lists, /):
    check_keys(feature_lists)
    lists = b"".join([
        _field(1, _field(1, key.encode()) + _field(2, _feature_list(key, feature_lists[key])))
        for key in sorted(feature_lists)
    ])
    return encode_example(context) + _field(EX_FEATURE_LISTS, lists)
