# See pool.h.
cdef extern from "memory/pool.h" nogil:
    void *pool_take(size_t size, size_t *capacity)
    void pool_give(void *memory, size_t capacity)
