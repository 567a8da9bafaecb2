# Inflating from any symbol on, and what is needed for that: see ext/inflate/inflate.h.


cdef inflate_container container_of(str codec) except *:
    if codec == "GZIP":
        return INFLATE_GZIP
    if codec == "ZLIB":
        return INFLATE_ZLIB
    raise ValueError(f"codec must be 'GZIP' or 'ZLIB', got {codec!r}")


# A header is read at once, and kept until all of it is there: its file name may have no end. The extra
# field alone may take half of this.
cdef enum:
    MOST_HEADER_BYTES = 128 << 10


@cython.final
cdef class Inflater:
    """A GZIP or ZLIB stream, fed in pieces and read in pieces, that tells how to go on where it stands."""

    cdef inflater *state
    cdef size_t state_bytes
    cdef uint8_t *out
    cdef size_t out_bytes
    cdef size_t room
    cdef uint8_t *marked  # the window at the mark, and behind it which bytes of it are copied
    cdef size_t marked_bytes
    cdef object data
    cdef uint64_t before  # bytes of input in front of `data`
    cdef bint final
    cdef readonly str status
    cdef readonly object member

    def __cinit__(self, codec):
        cdef inflate_container container = container_of(codec)
        self.state = <inflater *> pool_take(sizeof(inflater), &self.state_bytes)
        self.marked = <uint8_t *> pool_take(2 * INFLATE_WINDOW, &self.marked_bytes)
        if self.state == NULL or self.marked == NULL:
            raise MemoryError("an Inflater")
        inflate_begin(self.state, container)
        self.data = b""
        self.status = "more"

    def __dealloc__(self):
        pool_give(self.state, self.state_bytes)
        pool_give(self.marked, self.marked_bytes)
        pool_give(self.out, self.out_bytes)

    @cython.critical_section
    def feed(self, data):
        """Take the next bytes. They must not change until they are read."""
        cdef uint64_t used = self.state.bit >> 3
        rest = memoryview(self.data)[used:]
        self.data = bytes(rest) + bytes(data) if len(rest) else memoryview(data).cast("B")
        self.before += used
        self.state.bit &= 7

    def finish(self):
        """Say that the input has ended."""
        self.final = True

    @property
    def bit(self):
        """The bit of the file where the next symbol, or the next member, begins."""
        return 8 * self.before + self.state.bit

    @cython.critical_section
    def read(self, limit, *, bint exact=False):
        """The next bytes. `status` says why there are no more of them: the "limit", "more" input is
        needed, a "member" has ended, or all data has, at its "end". ``exact``: end at the last symbol
        that does not reach beyond the limit. Else up to 257 bytes more may come.

        ValueError for data that is damaged, EOFError where it ends too early; what comes before that is
        given first.
        """
        cdef size_t most = <size_t> to_count(limit, PY_SSIZE_T_MAX // 2, "limit")
        cdef size_t at = INFLATE_WINDOW
        cdef inflate_status found
        cdef _Exported memory = export(self.data, "data")
        self.reserve(most)
        with nogil:
            found = inflate_run(
                self.state, memory.data, <size_t> memory.size, self.final, self.out, &at,
                INFLATE_WINDOW + most, exact)
        out = PyBytes_FromStringAndSize(<const char *> self.out + INFLATE_WINDOW, <Py_ssize_t> (at - INFLATE_WINDOW))
        memmove(self.out, self.out + at - INFLATE_WINDOW, INFLATE_WINDOW)
        self.member = (self.state.check, self.state.length) if found == INFLATE_MEMBER else None
        if found == INFLATE_MORE and not out and memory.size - <Py_ssize_t> (self.state.bit >> 3) > MOST_HEADER_BYTES:
            raise ValueError(f"a header has more than {MOST_HEADER_BYTES} bytes")
        if found == INFLATE_BAD or found == INFLATE_CUT:
            self.status = "more"  # the next call meets the same
            if not out:
                if found == INFLATE_CUT:
                    raise EOFError("the data ends too early")
                raise ValueError(self.state.why.decode())
        else:
            self.status = {INFLATE_MORE: "more", INFLATE_FULL: "limit", INFLATE_MEMBER: "member"}.get(found, "end")
        return out

    cdef int reserve(self, size_t most) except -1:
        cdef uint8_t *out
        cdef size_t capacity = 0
        if self.out != NULL and most <= self.room:
            return 0
        out = <uint8_t *> pool_take(INFLATE_WINDOW + most + INFLATE_SPARE, &capacity)
        if out == NULL:
            raise MemoryError(f"{most} bytes of output")
        if self.out != NULL:
            memcpy(out, self.out, INFLATE_WINDOW)
            pool_give(self.out, self.out_bytes)
        else:
            memset(out, 0, INFLATE_WINDOW)
        self.out, self.out_bytes, self.room = out, capacity, most
        return 0

    @cython.critical_section
    def mark(self):
        """What `inflate_block` needs to begin here, but for the `window`: the bit, and the header and how
        many bits that has. From now on it is watched which bytes of the window are used."""
        cdef uint8_t header[INFLATE_MOST_HEADER]
        cdef uint32_t bits = inflate_header(self.state, header)
        self.reserve(0)
        memcpy(self.marked, self.out, INFLATE_WINDOW)
        memset(self.marked + INFLATE_WINDOW, 0, INFLATE_WINDOW)
        self.state.marks = self.marked + INFLATE_WINDOW
        self.state.since_mark = 0
        return self.bit, header[:(bits + 7) // 8], bits

    @property
    def watched(self):
        """Whether all that may copy bytes of the window has been read."""
        return self.state.since_mark >= INFLATE_WINDOW or self.status == "end"

    @cython.critical_section
    def window(self):
        """The bytes before the mark, from the first one on that what follows copies. Those between that
        nothing copies are zeros."""
        cdef size_t i, first = INFLATE_WINDOW
        for i in range(INFLATE_WINDOW):
            if not self.marked[INFLATE_WINDOW + i]:
                self.marked[i] = 0
            elif i < first:
                first = i
        return PyBytes_FromStringAndSize(<const char *> self.marked + first, <Py_ssize_t> (INFLATE_WINDOW - first))

    def __reduce__(self):
        raise TypeError("an Inflater can't be pickled")


def inflate_block(data, codec, *, bit, header, header_bits, window, skip, nbytes):
    """``nbytes`` bytes that come ``skip`` bytes behind bit ``bit`` of ``data``, where an `Inflater` was
    marked: what there is of them, and why there is no more, or None."""
    cdef inflate_container container = container_of(codec)
    cdef _Exported memory = export(data, "data"), known = export(window, "window"), head = export(header, "header")
    cdef uint64_t begin = <uint64_t> to_count(bit, PY_SSIZE_T_MAX, "bit")
    cdef size_t ahead = <size_t> to_count(skip, 1 << 40, "skip"), at = <size_t> known.size, limit
    cdef uint32_t bits = <uint32_t> to_count(header_bits, 1 << 20, "header_bits")
    cdef size_t wanted = <size_t> to_count(nbytes, 1 << 60, "nbytes"), state_bytes = 0
    cdef inflate_status found = INFLATE_MEMBER
    cdef inflater *state
    cdef Buffer out
    cdef object why = None
    if known.size > INFLATE_WINDOW or head.size != (bits + 7) // 8 or begin > 8 * <uint64_t> memory.size:
        raise ValueError("no inflater was marked so")
    limit = at + ahead + wanted
    out = Buffer(limit + INFLATE_SPARE)
    state = <inflater *> pool_take(sizeof(inflater), &state_bytes)
    if state == NULL:
        raise MemoryError("an inflater")
    try:
        if not inflate_resume(state, container, head.data, bits, at):
            raise ValueError("no inflater was marked so")
        state.bit = begin
        memcpy(out.data, known.data, at)
        with nogil:
            while found == INFLATE_MEMBER and at < limit:
                found = inflate_run(state, memory.data, <size_t> memory.size, True, out.data, &at, limit, False)
        if at < limit:
            why = state.why.decode() if found == INFLATE_BAD else "the data ends too early"
    finally:
        pool_give(state, state_bytes)
    return memoryview(out)[min(known.size + ahead, at):min(limit, at)], why
