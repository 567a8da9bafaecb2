"""The Python end of the ops: lends them the bytes of what is not a raw local file.

Whoever comes when the gate is closed is answered without Python. What was lent stays lent then.
"""


cdef extern from "tensorflow/ops/op_records.h" nogil:
    ctypedef struct op_chunk:
        const uint8_t *data
        size_t size
        void *memory
        void *lender
    ctypedef struct op_sums:
        int64_t before
        int64_t behind
    ctypedef struct op_part:
        op_chunk bytes
        op_chunk table
        int64_t *offsets
        int64_t *lengths
        size_t count
    const char *op_reasons[3]
    c_bool op_chunk_take(op_chunk *bytes, size_t size, failure *why)
    void (*op_return_lent)(void *lender) noexcept


cdef extern from "tensorflow/ops/op_python.h" nogil:
    enum:
        MAX_VERSION
    ctypedef struct op_settings:
        const char *options
        c_bool verify
        c_bool skip_corrupt
        c_bool partial
        uint64_t max_record_bytes
    ctypedef struct op_block:
        const op_settings *settings
        const char *url
        const char *codec
        const char *version
        int64_t start
        int64_t stop
        int64_t raw_start
        int64_t raw_stop
        op_sums sums
        int64_t file_blocks
    ctypedef struct op_stream:
        const op_settings *settings
        char url[4096]
        char codec[16]
        char version[1024]
        int64_t position[2]
        c_bool ended
        c_bool waits
    ctypedef struct op_python_functions:
        void *(*begin_block)(const op_block *block) noexcept
        void (*drop_fetch)(void *fetch) noexcept
        c_bool (*await_fetch)(void *fetch) noexcept
        c_bool (*read_block)(
            const op_block *block, void *fetch, op_part *found, failure *why
        ) noexcept
        c_bool (*read_stream)(op_stream *stream, op_part *found, failure *why) noexcept
        void (*forget_steps)() noexcept
        c_bool (*inflate)(
            const char *codec, const op_chunk *stored, size_t limit, op_chunk *raw
        ) noexcept
        c_bool (*is_whole)(const char *path) noexcept
    op_python_functions op_python


cdef extern from "tensorflow/ops/op_blocks.h" nogil:
    void op_lent_after_fork()


cdef extern from "tensorflow/ops/op_call.h" nogil:
    const char *op_kernels_register()


cdef object _answers = None
cdef list _reasons = [
    reason.text.encode() for reason in (Reason.TRUNCATED, Reason.LENGTH_CRC, Reason.DATA_CRC)
]


def load_ops(answers):
    """Register the ops; ``answers`` has what their kernels ask. Once per process."""
    global _answers, op_return_lent
    if _answers is not None:
        raise RuntimeError("the TensorFlow bridge is loaded already")
    load_abi()
    _answers = answers
    op_return_lent = return_lent
    for i, text in enumerate(_reasons):
        op_reasons[i] = <const char *> text
    op_python.begin_block = begin
    op_python.drop_fetch = drop
    op_python.await_fetch = await_begun
    op_python.read_block = lend_block
    op_python.read_stream = lend_stream
    op_python.forget_steps = forget_streams
    op_python.inflate = lend_inflated
    op_python.is_whole = is_whole_shard
    pthread_atfork(NULL, NULL, op_lent_after_fork)
    cdef const char *problem = op_kernels_register()
    if problem != NULL:
        raise ImportError(f"this TensorFlow does not go with the ops: {problem.decode()}")


cdef object settings_of(const op_settings *settings):
    return _answers.Settings(
        storage=settings.options.decode(),
        verify=settings.verify,
        skip_corrupt=settings.skip_corrupt,
        partial=settings.partial,
        max_record_bytes=settings.max_record_bytes,
    )


cdef object block_request(const op_block *block):
    return _answers.BlockRequest(
        url=block.url.decode(),
        codec=block.codec.decode(),
        version=block.version.decode(),
        stored=(block.start, block.stop),
        raw=(block.raw_start, block.raw_stop),
        sums=(block.sums.before, block.sums.behind),
        file_blocks=block.file_blocks,
        settings=settings_of(block.settings),
    )


cdef object stream_request(op_stream *stream):
    return _answers.StreamRequest(
        url=stream.url.decode(),
        codec=stream.codec.decode(),
        version=stream.version.decode(),
        position=(stream.position[0], stream.position[1]),
        settings=settings_of(stream.settings),
    )


cdef void return_lent(void *buffer) noexcept nogil:
    if gate_enter():
        with gil:
            PyBuffer_Release(<Py_buffer *> buffer)
        free(buffer)
        gate_leave()


cdef int lend(object data, op_chunk *bytes) except -1:
    """Export `data` to C until op_chunk_release."""
    cdef Py_buffer *buffer = <Py_buffer *> malloc(sizeof(Py_buffer))
    if buffer == NULL:
        raise MemoryError()
    try:
        PyObject_GetBuffer(data, buffer, PyBUF_SIMPLE)
    except BaseException:
        free(buffer)
        raise
    bytes.data = <const uint8_t *> buffer.buf
    bytes.size = <size_t> buffer.len
    bytes.lender = buffer
    return 0


cdef int lend_batch(object batch, op_part *found, failure *why) except -1:
    """Export a RecordBatch: its buffer, and a copy of where its records lie."""
    cdef const int64_t[::1] offsets = batch.offsets
    cdef const int64_t[::1] lengths = batch.lengths
    cdef size_t count = <size_t> offsets.shape[0]
    cdef size_t nbytes = count * sizeof(int64_t)
    if count == 0:
        return 0
    lend(batch.buffer, &found.bytes)
    if not op_chunk_take(&found.table, 2 * nbytes, why):
        raise MemoryError()
    found.offsets = <int64_t *> found.table.memory
    found.lengths = found.offsets + count
    memcpy(found.offsets, &offsets[0], nbytes)
    memcpy(found.lengths, &lengths[0], nbytes)
    found.count = count
    return 0


cdef int put_text(object text, char *to, size_t size) except -1:
    cdef bytes encoded = text.encode()
    cdef size_t length = <size_t> len(encoded)
    if length >= size:
        raise ValueError(f"an etag of {length} bytes is too long")
    memcpy(to, <const char *> encoded, length + 1)
    return 0


cdef c_bool fail_exception(failure *why, object error) noexcept:
    try:
        pass_on(error)
        code, text = _answers.classify(error)
        message = text.encode("utf-8", "replace")
        return fail(why, <TF_Code> <int> code, b"%s", <const char *> message)
    except BaseException:
        return fail(why, TF_UNKNOWN, b"an error that could not be described")


cdef void *begin(const op_block *block) noexcept nogil:
    cdef void *fetch = NULL
    if gate_enter():
        fetch = begin_fetch(block)
        gate_leave()
    return fetch


cdef void *begin_fetch(const op_block *block) noexcept with gil:
    try:
        fetch = _answers.begin_block(block_request(block))
        Py_INCREF(fetch)
        return <void *> fetch
    except BaseException:
        return NULL  # read_block meets the same, and says it


cdef void drop(void *fetch) noexcept nogil:
    if gate_enter():
        drop_fetch(fetch)
        gate_leave()


cdef void drop_fetch(void *fetch) noexcept with gil:
    begun = <object> fetch
    Py_DECREF(begun)
    begun.cancel()


cdef c_bool await_begun(void *fetch) noexcept nogil:
    cdef c_bool here = True  # closed: so says read_block
    if gate_enter():
        here = await_fetch(fetch)
        gate_leave()
    return here


cdef c_bool await_fetch(void *fetch) noexcept with gil:
    try:
        return (<object> fetch).wait()
    except BaseException:
        return True  # read_block meets the same, and says it


cdef c_bool lend_block(
    const op_block *block, void *fetch, op_part *found, failure *why
) noexcept nogil:
    cdef c_bool had
    if not gate_enter():
        return fail(why, TF_CANCELLED, b"%s: %s", block.url, GATE_CLOSED)
    had = read_lent(block, fetch, found, why)
    gate_leave()
    return had


cdef c_bool read_lent(
    const op_block *block, void *fetch, op_part *found, failure *why
) noexcept with gil:
    begun = None
    if fetch != NULL:
        begun = <object> fetch
        Py_DECREF(begun)
    try:
        answer = _answers.read_block(begun, block_request(block))
        if block.settings.skip_corrupt:
            lend_batch(answer, found, why)
        else:
            lend(answer, &found.bytes)
        return True
    except BaseException as error:
        return fail_exception(why, error)


cdef c_bool lend_stream(op_stream *stream, op_part *found, failure *why) noexcept nogil:
    cdef c_bool had
    if not gate_enter():
        return fail(why, TF_CANCELLED, b"%s: %s", stream.url, GATE_CLOSED)
    had = read_stream(stream, found, why)
    gate_leave()
    return had


cdef c_bool read_stream(op_stream *stream, op_part *found, failure *why) noexcept with gil:
    try:
        answer = _answers.read_stream(stream_request(stream))
        stream.waits = answer is None
        stream.ended = False
        if answer is None:
            return True
        batch, version, position = answer
        put_text(version, stream.version, MAX_VERSION)
        lend_batch(batch, found, why)
        stream.position[0], stream.position[1] = position
        stream.ended = found.count == 0
        return True
    except BaseException as error:
        return fail_exception(why, error)


cdef void forget_streams() noexcept nogil:
    if gate_enter():
        forget_here()
        gate_leave()


cdef void forget_here() noexcept with gil:
    try:
        _answers.forget_steps()
    except BaseException:
        pass  # they are found by nobody who asks for a version


cdef c_bool lend_inflated(
    const char *codec, const op_chunk *stored, size_t limit, op_chunk *raw
) noexcept nogil:
    cdef c_bool had = False  # closed: so says read_stream
    if gate_enter():
        had = inflate(codec, stored, limit, raw)
        gate_leave()
    return had


cdef c_bool inflate(
    const char *codec, const op_chunk *stored, size_t limit, op_chunk *raw
) noexcept with gil:
    try:
        data = PyBytes_FromStringAndSize(<const char *> stored.data, <Py_ssize_t> stored.size)
        inflated = _answers.inflate(data, codec.decode(), limit)
        if inflated is None:
            return False
        lend(inflated, raw)
        return True
    except BaseException:
        return False  # read_stream meets the same, and says it


cdef c_bool is_whole_shard(const char *path) noexcept nogil:
    cdef c_bool whole = False  # closed: so says read_stream
    if gate_enter():
        whole = ask_manifest(path)
        gate_leave()
    return whole


cdef c_bool ask_manifest(const char *path) noexcept with gil:
    try:
        return _answers.is_whole(path.decode())
    except BaseException:
        return False  # read_stream meets the same, and says it
