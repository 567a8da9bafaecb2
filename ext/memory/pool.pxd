# See pool.h.
cdef extern from "memory/pool.h" nogil:
    void *pool_take(size_t size, size_t *capacity)
    void pool_give(void *memory, size_t capacity)
    size_t pool_kept()
    void pool_serve(size_t threads, size_t budget)
    ctypedef struct pool_functions:
        pass
    const char *POOL_CAPSULE
    const pool_functions *pool_lend()
    void pool_borrow(const pool_functions *lent)
