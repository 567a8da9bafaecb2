# See tasks.h.

cdef extern from "<stdbool.h>":
    ctypedef bint c_bool "bool"


cdef extern from "tasks/tasks.h" nogil:
    ctypedef struct task:
        void (*run)(task *) noexcept nogil
    c_bool task_begin(task *begun, size_t threads, size_t at_once)
    c_bool task_begins(task *begun, unsigned microseconds)
    c_bool task_wait(task *begun, unsigned microseconds)
    c_bool task_is_done(task *begun)
    void task_leave(task *left)
    ctypedef struct task_functions:
        pass
    const char *TASKS_CAPSULE
    const task_functions *tasks_lend()
    void tasks_borrow(const task_functions *lent)
