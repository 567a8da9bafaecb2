"""Learning the columns of mappings while they are encoded. What is learned: `tfio_store.example.learned`."""


cdef struct _Seen:
    uint8_t kind, scalar, listed
    int64_t first               # the record that told the kind
    int64_t records, least, most


cdef class _Form:
    """The names of a mapping: as it has them, sorted, and their places in `Learner.seen`."""
    cdef list order, keys
    cdef size_t *places

    def __dealloc__(self):
        free(self.places)


cdef enum:
    _MOST_FORMS = 1024          # that are remembered


cdef class Learner:
    cdef _Seen *seen
    cdef size_t count, room
    cdef dict numbers           # by name: its place in `seen`
    cdef list names             # all of them
    cdef dict forms             # of mappings so far, by their names
    cdef _Form last
    cdef dict shapes, units     # by place: the common shape of arrays, the dtype of times
    cdef dict nested
    cdef dict mixed             # features that hold integers, and floats in an earlier record
    cdef int64_t records, others

    def __cinit__(self):
        self.numbers, self.names, self.forms, self.last = {}, [], {}, _Form()
        self.shapes, self.units, self.nested, self.mixed = {}, {}, {}, {}

    def __dealloc__(self):
        free(self.seen)

    cdef Py_ssize_t place(self, object name) except -1:
        number = self.numbers.get(name)
        if number is not None:
            return number
        if self.count == self.room:
            self.room = 2 * self.room + 16
            grown = <_Seen *> realloc(self.seen, self.room * sizeof(_Seen))
            if not grown:
                raise MemoryError
            self.seen = grown
        memset(&self.seen[self.count], 0, sizeof(_Seen))
        self.numbers[name] = <Py_ssize_t> self.count
        self.names.append(name)
        self.count += 1
        return <Py_ssize_t> self.count - 1

    @cython.critical_section
    def encode(self, mapping, /):
        # Code of the values, and in Python, lets other threads in: what it found before may be old then.
        cdef _Features ready
        cdef _Form form = None
        cdef list order
        if type(mapping) is dict and not any_ragged(<dict> mapping):
            order = list(<dict> mapping)
            form = self.known(order)
            if form is not None:  # checked and sorted before
                ready = _features_of(<dict> mapping, form.keys)
                record = _example_of(ready)
                self.check_kinds(ready, form)
            else:
                ready = _features_of(<dict> mapping, None)
                record = _example_of(ready)
                form = self.meet(ready, order)
            if self.mixed:
                return self.encode_floats(mapping)
            self.learn(ready, form)
            return record
        expanded = expand(mapping)
        ready = _features_of(expanded, None)
        record = _example_of(ready)
        form = self.meet(ready, list(expanded))
        if self.mixed:
            return self.encode_floats(mapping)
        self.learn(ready, form)
        self.count_nested(mapping)
        return record

    cdef _Form known(self, list order):
        """The form of a mapping of these names, if there was one before."""
        cdef _Form form = self.last
        if order == form.order:
            return form
        try:
            form = self.forms.get(tuple(order))
        except TypeError:  # of names that are no str
            return None
        if form is not None:
            self.last = form
        return form

    cdef _Form meet(self, _Features ready, list order):
        """Find the places of the features of a mapping that is like none so far. New ones come in
        the order of the mapping."""
        cdef Py_ssize_t i
        cdef _Form form = _Form()
        for i in range(ready.count):
            number = self.numbers.get(ready.names[i])
            if number is not None:
                self.check_kind(ready, i, <Py_ssize_t> number)
        if self.mixed:
            return form
        for name in order:
            self.place(name)
        form.places = <size_t *> malloc((<size_t> ready.count + 1) * sizeof(size_t))
        if not form.places:
            raise MemoryError
        for i in range(ready.count):
            form.places[i] = <size_t> <Py_ssize_t> self.numbers[ready.names[i]]
        form.keys, form.order = ready.names, order
        self.last = form
        if len(self.forms) < _MOST_FORMS:
            self.forms[tuple(order)] = form
        return form

    cdef int check_kinds(self, _Features ready, _Form form) except -1:
        cdef Py_ssize_t i
        for i in range(ready.count):
            self.check_kind(ready, i, <Py_ssize_t> form.places[i])
        return 0

    cdef inline int check_kind(self, _Features ready, Py_ssize_t i, Py_ssize_t at) except -1:
        cdef ex_feature *item = &ready.items[i]
        cdef _Seen *one = &self.seen[at]
        if item.kind and not item.absent and one.kind and one.kind != item.kind:
            if item.kind == EX_INT64 and one.kind == EX_FLOAT:
                self.mixed[ready.names[i]] = one.first
                return 0
            self.mixed = {}
            number = self.records + self.others
            raise_two_kinds(ready.names[i], item.kind, number, one.kind, one.first)
        return 0

    cdef object encode_floats(self, mapping):
        """The record of the mapping with floats for the integers of `mixed`, which others have as
        floats."""
        mixed, self.mixed = self.mixed, {}
        return self.encode(as_floats(mapping, mixed, self.records + self.others))

    cdef int count_nested(self, mapping) except -1:
        for name, value in mapping.items():
            if isinstance(value, Ragged):
                self.nested[name] = self.nested.get(name, 0) + 1
        return 0

    cdef int learn(self, _Features ready, _Form form) except -1:
        cdef Py_ssize_t i
        cdef ex_feature *item
        cdef _Seen *one
        cdef int64_t count
        if ready.shapes:
            self.check_units(ready, form)
        for i in range(ready.count):
            item = &ready.items[i]
            one = &self.seen[form.places[i]]
            if item.absent:
                continue
            count = <int64_t> item.count
            if not one.records or count < one.least:
                one.least = count
            if count > one.most:
                one.most = count
            one.records += 1
            if item.kind and not one.kind:
                one.kind, one.first = <uint8_t> item.kind, self.records + self.others
            if ready.dims[i] == 0:
                one.scalar = 1
            elif ready.dims[i] == 1:
                one.listed = 1
            elif ready.shapes[i][1] is not None:
                self.units[form.places[i]] = ready.shapes[i][1]
        self.records += 1
        if ready.shapes:
            self.learn_shapes(ready, form)
        return 0

    cdef int check_units(self, _Features ready, _Form form) except -1:
        cdef Py_ssize_t i
        for i in range(ready.count):
            if ready.dims[i] != 2 or ready.items[i].absent:
                continue
            at, unit = form.places[i], ready.shapes[i][1]
            known = self.units.get(at)
            if unit is not None and known is not None and unit != known:
                raise_two_units(ready.names[i], unit, self.records + self.others, known)
        return 0

    cdef int learn_shapes(self, _Features ready, _Form form) except -1:
        cdef Py_ssize_t i
        cdef tuple shape
        for i in range(ready.count):
            if ready.dims[i] != 2 or ready.items[i].absent:
                continue
            shape = ready.shapes[i][0]
            if len(shape) > 1:
                self.widen(form.places[i], shape)
            elif len(shape):
                self.seen[form.places[i]].listed = 1
            else:
                self.seen[form.places[i]].scalar = 1
        return 0

    cdef int widen(self, size_t at, tuple shape) except -1:
        known = self.shapes.setdefault(at, shape)
        while known != shape:
            (common,) = common_shape([known, shape])
            now = self.shapes[at]
            if now is known:  # no other thread has come meanwhile
                self.shapes[at] = common
                break
            known = now
        return 0

    @cython.critical_section
    def skip(self, Py_ssize_t records, /):
        self.others += records

    @cython.critical_section
    def state(self):
        cdef _Seen one
        columns = {}
        for at, name in enumerate(self.names):
            one = self.seen[<size_t> at]
            shape, unit = self.shapes.get(at), self.units.get(at)
            columns[name] = [one.kind, one.records, one.least, one.most, one.scalar, one.listed,
                             [] if shape is None else [list(shape)], self.nested.get(name, 0),
                             [] if unit is None else [unit]]
        return {"records": self.records, "others": self.others, "columns": columns}
