# Columns of numbers, decoded from end to end without the GIL.


cdef int borrow_tasks() except -1:
    """The process has one pool of threads of C: the compiled core's, if that is in use."""
    core = sys.modules.get("tfio_store.records._core")
    if core is not None:
        tasks_borrow(<const task_functions *> PyCapsule_GetPointer(core._tasks, TASKS_CAPSULE))
    return 0


borrow_tasks()


@cython.final
cdef class Columns:
    """The columns of records in several buffers, one behind the other, if all of them are of so many
    numbers in each record."""

    cdef ex_columns_task *made
    cdef readonly list keys
    cdef list found             # an array for each column
    cdef PyObject *held         # all that the task points to; hidden from the collector, which would clear it
    cdef Py_ssize_t records

    def __cinit__(self, parts, keys, widths, kinds):
        cdef const uint8_t[::1] data
        cdef const int64_t[::1] starts, sizes
        cdef float[::1] floats
        cdef int64_t[::1] wholes
        cdef ex_columns_task *made
        cdef Py_ssize_t extent = 0, i, k
        sweep()
        parts, self.keys, self.found = list(parts), list(keys), []
        made = self.made = ex_new_columns_task(len(parts), len(self.keys))
        if made == NULL:
            raise MemoryError
        for i in range(len(parts)):
            buffer, offsets, lengths = parts[i]
            data, starts, sizes = buffer, offsets, lengths
            _check_inside(data.shape[0], starts, sizes)
            made.parts[i].count = <size_t> starts.shape[0]
            if starts.shape[0]:
                made.parts[i].base = &data[0] if data.shape[0] else &NOTHING
                made.parts[i].starts, made.parts[i].sizes = &starts[0], &sizes[0]
            self.records += starts.shape[0]
            extent += data.shape[0]
        for k, (key, width, kind) in enumerate(zip(self.keys, widths, kinds, strict=True)):
            total, least = width * self.records, 4 if kind == <int> EX_FLOAT else 1
            if not 0 < total <= MOST or total * least > extent:  # no record can hold so many
                self.found = None
                return
            if not ex_set_key(made, <size_t> k, ex_borrow(key)):
                raise MemoryError
            made.columns[k].kind, made.columns[k].width = <ex_kind> <int> kind, <size_t> width
            self.found.append(np.empty(total, np.float32 if kind == <int> EX_FLOAT else np.int64))
            if kind == <int> EX_FLOAT:
                floats = self.found[k]
                made.columns[k].out = &floats[0]
            else:
                wholes = self.found[k]
                made.columns[k].out = &wholes[0]
        everything = (parts, list(self.found))
        Py_INCREF(everything)
        self.held = <PyObject *> everything

    def __dealloc__(self):
        cdef ex_kept *kept
        if self.made == NULL:
            return
        if not begins(&self.made.task, 0) or task_is_done(&self.made.task):
            task_leave(&self.made.task)
            if self.held != NULL:
                Py_DECREF(<object> self.held)
            return
        kept = <ex_kept *> malloc(sizeof(ex_kept))
        if kept != NULL:
            kept.made, kept.held = self.made, self.held
            ex_keep(kept)

    def __len__(self):
        return self.records

    def begin(self, threads, at_once):
        """Hand it to one of at most so many threads of C, of which so many keep a core busy. False where
        nothing can be done."""
        cdef size_t most = threads, most_busy = at_once
        cdef bint begun = False
        if self.found is not None:
            with nogil:  # to wake a thread may take this one's core
                begun = task_begin(&self.made.task, most, most_busy)
        return begun

    def begins(self, double patience):
        """Whether a thread works on it, or does so within so many seconds. Else it is left to `result`."""
        return begins(&self.made.task, patience)

    def done(self):
        """Whether `result` neither waits nor works."""
        return self.found is None or task_is_done(&self.made.task)

    def result(self):
        """Wait for a thread, or do it here: an array for each column, and the seconds that it took. None
        where a record is unusual. Once only."""
        found, self.found = self.found, None
        if found is None:
            return None
        finish(&self.made.task)
        return None if self.made.status else (found, 1e-9 * self.made.ns)


cdef void sweep() noexcept:
    """End the tasks that were dropped, as far as no thread works on them any more."""
    cdef ex_kept *kept = ex_take_kept()
    cdef ex_kept *next
    while kept != NULL:
        next = kept.next
        if task_is_done(&kept.made.task):
            task_leave(&kept.made.task)
            Py_DECREF(<object> kept.held)
            free(kept)
        else:
            ex_keep(kept)
        kept = next
