# What the owners of tasks of C do.

cdef unsigned SIGNALS_EACH = 50000  # microseconds that Ctrl-C waits


cdef bint begins(task *begun, double patience) noexcept:
    """Whether a thread works on it, or does so within so many seconds. Else it is idle."""
    cdef unsigned microseconds = <unsigned> (1e6 * patience)
    cdef bint found = task_is_done(begun)
    if not found:
        with nogil:
            found = task_begins(begun, microseconds)
    return found


cdef int finish(task *begun) except -1:
    """Wait for the thread that works on it, or do it here."""
    cdef bint ended = task_is_done(begun)
    if not ended:
        with nogil:
            if not task_begins(begun, 0):
                begun.run(begun)
                ended = True
    while not ended:
        with nogil:
            ended = task_wait(begun, SIGNALS_EACH)
        PyErr_CheckSignals()
    return 0
