# Inflating from any symbol on, and what is needed for that: see ext/inflate/inflate.h.


cdef inflate_container container_of(str codec) except *:
    if codec == "GZIP":
        return INFLATE_GZIP
    if codec == "ZLIB":
        return INFLATE_ZLIB
    raise ValueError(f"codec must be 'GZIP' or 'ZLIB', got {codec!r}")


cdef tuple STATUSES = ("more", "limit", "member", "end")  # as inflate_status counts them


cdef str why_of(const inflater *state):
    return state.why.decode()


# A header is read at once, and kept until all of it is there: its file name may have no end. The extra
# field alone may take half of this.
cdef enum:
    MOST_HEADER_BYTES = 128 << 10


@cython.final
cdef class Inflater:
    """A GZIP or ZLIB stream, fed in pieces and read in pieces, that tells how to go on where it stands.

    RuntimeError when one thread calls while another one reads.
    """

    cdef inflater *state
    cdef size_t state_bytes
    cdef uint8_t *out
    cdef size_t out_bytes
    cdef size_t room
    cdef uint8_t *marked  # the window at the mark, and behind it which bytes of it are copied
    cdef size_t marked_bytes
    cdef object data
    cdef uint64_t before  # bytes of input in front of `data`
    cdef bint final, busy
    cdef str state_now
    cdef tuple ended

    def __cinit__(self, codec):
        cdef inflate_container container = container_of(codec)
        self.state = <inflater *> pool_take(sizeof(inflater), &self.state_bytes)
        self.marked = <uint8_t *> pool_take(2 * INFLATE_WINDOW, &self.marked_bytes)
        if self.state == NULL or self.marked == NULL:
            raise MemoryError("an Inflater")
        inflate_begin(self.state, container)
        self.data = b""
        self.state_now = "more"

    def __dealloc__(self):
        pool_give(self.state, self.state_bytes)
        pool_give(self.marked, self.marked_bytes)
        pool_give(self.out, self.out_bytes)

    def feed(self, data):
        """Take the next bytes. They must not change until they are read."""
        cdef uint64_t used
        flat = memoryview(data)
        flat = flat.cast("B")
        with cython.critical_section(self):
            check_unread(self)
            used = self.state.bit >> 3
            rest = memoryview(self.data)[used:]
            self.data = bytes(rest) + bytes(flat) if len(rest) else flat
            self.before += used
            self.state.bit &= 7

    def finish(self):
        """Say that the input has ended."""
        with cython.critical_section(self):
            check_unread(self)
            self.final = True

    @property
    def bit(self):
        """The bit of the file where the next symbol, or the next member, begins."""
        with cython.critical_section(self):
            return bit_of(self)

    @property
    def status(self):
        """Why `read` gave no more: "limit", "more", "member" or "end"."""
        with cython.critical_section(self):
            return self.state_now

    @property
    def member(self):
        """Of a member that has just ended: the checksum and the length that its end tells."""
        with cython.critical_section(self):
            return self.ended

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
        cdef _Exported memory
        check_unread(self)
        memory = export(self.data, "data")
        self.reserve(most)
        self.busy = True
        with nogil:
            found = inflate_run(
                self.state, memory.data, <size_t> memory.size, self.final, self.out, &at,
                INFLATE_WINDOW + most, exact)
        self.busy = False
        out = PyBytes_FromStringAndSize(<const char *> self.out + INFLATE_WINDOW, <Py_ssize_t> (at - INFLATE_WINDOW))
        memmove(self.out, self.out + at - INFLATE_WINDOW, INFLATE_WINDOW)
        self.ended = (self.state.check, self.state.length) if found == INFLATE_MEMBER else None
        if found == INFLATE_MORE and not out and memory.size - <Py_ssize_t> (self.state.bit >> 3) > MOST_HEADER_BYTES:
            raise ValueError(f"a header has more than {MOST_HEADER_BYTES} bytes")
        if found == INFLATE_BAD or found == INFLATE_CUT:
            self.state_now = "more"  # the next call meets the same
            if not out:
                if found == INFLATE_CUT:
                    raise EOFError("the data ends too early")
                raise ValueError(why_of(self.state))
        else:
            self.state_now = STATUSES[<int> found]
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
        cdef uint32_t bits
        check_unread(self)
        bits = inflate_header(self.state, header)
        self.reserve(0)
        memcpy(self.marked, self.out, INFLATE_WINDOW)
        memset(self.marked + INFLATE_WINDOW, 0, INFLATE_WINDOW)
        self.state.marks = self.marked + INFLATE_WINDOW
        self.state.since_mark = 0
        return bit_of(self), header[:(bits + 7) // 8], bits

    @property
    def watched(self):
        """Whether all that may copy bytes of the window has been read."""
        with cython.critical_section(self):
            check_unread(self)
            return self.state.since_mark >= INFLATE_WINDOW or self.state_now == "end"

    @cython.critical_section
    def window(self):
        """The bytes before the mark, from the first one on that what follows copies. Those between that
        nothing copies are zeros."""
        cdef size_t i, first = INFLATE_WINDOW
        check_unread(self)
        for i in range(INFLATE_WINDOW):
            if not self.marked[INFLATE_WINDOW + i]:
                self.marked[i] = 0
            elif i < first:
                first = i
        return PyBytes_FromStringAndSize(<const char *> self.marked + first, <Py_ssize_t> (INFLATE_WINDOW - first))

    def __reduce__(self):
        raise TypeError("an Inflater can't be pickled")


cdef int check_unread(Inflater inflater) except -1:
    if inflater.busy:
        raise RuntimeError("this Inflater is in use by another thread")
    return 0


cdef uint64_t bit_of(Inflater inflater) noexcept:
    return 8 * inflater.before + inflater.state.bit


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
            why = why_of(state) if found == INFLATE_BAD else "the data ends too early"
    finally:
        pool_give(state, state_bytes)
    return memoryview(out)[min(known.size + ahead, at):min(limit, at)], why
