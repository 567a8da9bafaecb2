"""The Python end of the filesystem plugin.

TensorFlow calls the C tables in filesystem.c from its own threads; what they cannot answer from
the block cache comes here, with the GIL, and goes on to the `Host` that `serve` was given.
"""


cdef extern from "tensorflow/filesystem/cache.h" nogil:
    ctypedef struct fs_range:
        pass
    uint64_t fs_range_start(const fs_range *range)
    size_t fs_range_size(const fs_range *range)
    void fs_range_fill(fs_range *range, const void *bytes, size_t size)
    void fs_range_fail(fs_range *range, TF_Code code, const char *reason)
    void fs_cache_set_budget(size_t bytes)
    void fs_cache_abandon(TF_Code code, const char *reason)
    void fs_cache_before_fork()
    void fs_cache_after_fork(bint child)

cdef extern from "tensorflow/filesystem/host.h":
    ctypedef struct fs_snapshot:
        uint64_t size
        char *version
    ctypedef struct fs_stat:
        long long size
        long long mtime_ns
        int is_directory
    ctypedef int fs_operation

cdef extern from "tensorflow/filesystem/filesystem.h":
    void fs_plugin_offer(const char *scheme)


cdef object host = None

# In the order of fs_operation.
cdef tuple OPERATIONS = (
    "exists", "is_directory", "create_directory", "create_directories", "delete_file",
    "delete_directory", "delete_tree", "rename", "copy",
)


def serve(new_host):
    """Send TensorFlow's calls to this `tfio_store.tf.filesystem.host.Host`."""
    global host
    load_abi()
    host = new_host


def offer(scheme, register):
    """Call ``register``, which makes TensorFlow load this extension, offering ``scheme`` to it."""
    cdef bytes name = scheme.encode()
    fs_plugin_offer(name)
    try:
        register()
    finally:
        fs_plugin_offer(NULL)


def set_cache_budget(size_t nbytes):
    fs_cache_set_budget(nbytes)


def abandon_reads(reason):
    """Let all reads that are on their way fail."""
    cdef bytes text = reason.encode()
    cdef const char *why = text
    with nogil:
        fs_cache_abandon(TF_UNAVAILABLE, why)


# ---- forks ----

cdef void _before_fork() noexcept nogil:
    fs_cache_before_fork()


cdef void _in_parent() noexcept nogil:
    fs_cache_after_fork(False)


cdef void _in_child() noexcept nogil:
    fs_cache_after_fork(True)
    gate_after_fork()


pthread_atfork(_before_fork, _in_parent, _in_child)


# ---- the GIL ----

cdef extern from "Python.h" nogil:
    bint PyGILState_Check()
    void *PyEval_SaveThread()
    void PyEval_RestoreThread(void *released)


cdef public void *host_release_gil() noexcept nogil:
    return PyEval_SaveThread() if PyGILState_Check() else NULL


cdef public void host_restore_gil(void *released) noexcept nogil:
    if released != NULL:
        PyEval_RestoreThread(released)


# ---- text: TensorFlow's paths are UTF-8, or whatever bytes somebody gave it ----

cdef str decoded(const char *text):
    return (<bytes>text).decode("utf-8", "surrogateescape")


cdef bytes encoded(str text):
    return text.encode("utf-8", "surrogateescape")


# ---- errors ----

cdef void set_error(failure *error, fault, path) noexcept:
    """What an exception means to TensorFlow."""
    try:
        pass_on(fault)
        code, reason = host.status(fault, path)
        fail(error, <TF_Code> <int> code, b"%s", <const char *> reason)
    except BaseException:
        fail(error, TF_UNAVAILABLE, b"the error could not be described")


# ---- operations on paths ----

cdef public void host_run(fs_operation operation, const char *path, const char *target,
                          failure *error) noexcept with gil:
    try:
        name = decoded(path)
        method = getattr(host, OPERATIONS[operation])
        if target == NULL:
            method(name)
        else:
            method(name, decoded(target))
    except BaseException as fault:
        set_error(error, fault, decoded(path))


cdef public void host_stat(const char *path, fs_stat *out, failure *error) noexcept with gil:
    try:
        found = host.stat(decoded(path))
        out.size = found.size
        out.mtime_ns = found.mtime_ns
        out.is_directory = found.is_folder
    except BaseException as fault:
        set_error(error, fault, decoded(path))


cdef int give_names(list names, char ***out) except -1:
    """Malloc'ed copies, which TensorFlow frees."""
    cdef char **copies = <char **>malloc(max(len(names), 1) * sizeof(char *))
    cdef Py_ssize_t i = 0
    if copies == NULL:
        raise MemoryError
    for name in names:
        copies[i] = strdup(encoded(name))
        i += 1
    out[0] = copies
    return <int>i


cdef public int host_children(const char *path, char ***names, failure *error) noexcept with gil:
    try:
        return give_names(host.children(decoded(path)), names)
    except BaseException as fault:
        set_error(error, fault, decoded(path))
        return -1


cdef public int host_glob(const char *pattern, char ***names, failure *error) noexcept with gil:
    try:
        return give_names(host.glob(decoded(pattern)), names)
    except BaseException as fault:
        set_error(error, fault, decoded(pattern))
        return -1


# ---- reading ----

cdef class _Arrival:
    """Called back when the bytes of ranges that follow one another are there. Owns them until then.
    """

    cdef fs_range **ranges
    cdef size_t count
    cdef str path

    def __call__(self, future):
        try:
            self.fill(future.result(0))
        except BaseException as fault:
            self.fail(fault)

    cdef uint64_t start(self) noexcept:
        return fs_range_start(self.ranges[0])

    cdef uint64_t stop(self) noexcept:
        cdef fs_range *last = self.ranges[self.count - 1]
        return fs_range_start(last) + fs_range_size(last)

    cdef int take(self, fs_range **ranges, size_t count) except -1:
        cdef size_t i
        self.ranges = <fs_range **>malloc(count * sizeof(fs_range *))
        if self.ranges == NULL:
            for i in range(count):
                fs_range_fail(ranges[i], TF_RESOURCE_EXHAUSTED, b"out of memory")
            raise MemoryError
        memcpy(self.ranges, ranges, count * sizeof(fs_range *))
        self.count = count
        return 0

    cdef int fill(self, data) except -1:
        cdef Py_buffer view
        cdef size_t count = self.count
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        self.count = 0
        with nogil:
            fill_all(self.ranges, count, <const char *>view.buf, <size_t>view.len)
        PyBuffer_Release(&view)
        return 0

    cdef void fail(self, fault) noexcept:
        cdef failure error
        set_error(&error, fault, self.path)
        self.fail_all(error.code, error.message)

    cdef void fail_all(self, TF_Code code, const char *reason) noexcept:
        cdef size_t i, count = self.count
        self.count = 0
        for i in range(count):
            fs_range_fail(self.ranges[i], code, reason)

    def __dealloc__(self):
        self.fail_all(TF_CANCELLED, b"the request was dropped")
        free(self.ranges)


cdef void fill_all(fs_range **ranges, size_t count, const char *bytes, size_t size) noexcept nogil:
    cdef size_t i, want, has
    for i in range(count):
        want = fs_range_size(ranges[i])
        has = want if want < size else size
        fs_range_fill(ranges[i], bytes, has)
        bytes += has
        size -= has


cdef size_t adjacent(fs_range **ranges, size_t count, size_t most) noexcept nogil:
    """How many of the ranges, from the first on, one request of up to ``most`` bytes can fetch."""
    cdef size_t n = 1, size = fs_range_size(ranges[0])
    while n < count and fs_range_start(ranges[n]) == fs_range_start(ranges[0]) + size:
        size += fs_range_size(ranges[n])
        if size > most:
            break
        n += 1
    return n


cdef int describe(snapshot, fs_snapshot *out) except -1:
    out.size = snapshot.size
    out.version = strdup(encoded(snapshot.version)) if snapshot.version else NULL
    return 0


cdef public void *host_open_reader(const char *path, fs_snapshot *snapshot,
                                   failure *error) noexcept with gil:
    try:
        reader = host.open_reader(decoded(path))
        describe(reader.snapshot, snapshot)
        Py_INCREF(reader)
        return <void *>reader
    except BaseException as fault:
        set_error(error, fault, decoded(path))
        return NULL


cdef public void host_look_again(void *file, fs_snapshot *snapshot,
                                 failure *error) noexcept with gil:
    reader = <object>file
    try:
        describe(reader.look_again(), snapshot)
    except BaseException as fault:
        set_error(error, fault, reader.url)


cdef public void host_close_reader(void *file) noexcept with gil:
    reader = <object>file
    Py_DECREF(reader)
    try:
        reader.close()
    except BaseException:
        pass  # what it gives up, it gives up


cdef public void host_fetch(void *file, fs_range **ranges, size_t count,
                            size_t request) noexcept with gil:
    cdef size_t n
    cdef _Arrival arrival
    reader = <object>file
    if request > <size_t>reader.range_bytes:
        request = reader.range_bytes
    while count:
        n = adjacent(ranges, count, request)
        arrival = _Arrival.__new__(_Arrival)
        arrival.path = reader.url
        try:
            arrival.take(ranges, n)
            reader.fetch(arrival.start(), arrival.stop(), arrival)
        except BaseException as fault:
            arrival.fail(fault)
        ranges += n
        count -= n


# ---- writing ----

cdef public void *host_open_writer(const char *path, int append, uint64_t *position,
                                   failure *error) noexcept with gil:
    try:
        writer = host.open_writer(decoded(path), append=bool(append))
        position[0] = writer.position
        Py_INCREF(writer)
        return <void *>writer
    except BaseException as fault:
        set_error(error, fault, decoded(path))
        return NULL


cdef public void host_write(void *file, const char *data, size_t size,
                            failure *error) noexcept with gil:
    writer = <object>file
    try:
        host.write(writer, data[:size])
    except BaseException as fault:
        set_error(error, fault, writer.url)


cdef public void host_sync(void *file, failure *error) noexcept with gil:
    writer = <object>file
    try:
        host.sync(writer)
    except BaseException as fault:
        set_error(error, fault, writer.url)


cdef public void host_finish(void *file, const char *data, size_t size,
                             failure *error) noexcept with gil:
    writer = <object>file
    try:
        host.finish_writer(writer, data[:size])
    except BaseException as fault:
        set_error(error, fault, writer.url)


cdef public void host_release_writer(void *file, const char *data, size_t size) noexcept with gil:
    writer = <object>file
    Py_DECREF(writer)
    try:
        host.release_writer(writer, data[:size])
    except BaseException as fault:
        host.report_lost(writer, fault)
