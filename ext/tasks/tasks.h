/* Threads that never want Python's lock. They do tasks, in the order in which these were begun.
 *
 * To hand the lock from thread to thread takes longer than to scan a megabyte: each time one sleeps
 * until the system wakes it. So what C can do from end to end is left to threads without Python.
 */
#ifndef TFIO_STORE_TASKS_H
#define TFIO_STORE_TASKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum { TASK_IDLE, TASK_QUEUED, TASK_RUNNING, TASK_DONE, TASK_LEFT } task_stage;

/* Whoever makes a task owns it: all below are called by him alone. It is the first member of what it
 * works on. */
typedef struct task {
    void (*run)(struct task *);
    void (*end)(struct task *); /* frees it */
    struct task *next;
    task_stage stage;
    unsigned fork; /* of this process, which may have been forked since */
    pthread_cond_t changed;
} task;

void task_make(task *made, void (*run)(task *), void (*end)(task *));

/* Hands an idle task to one of at most `threads` threads, of which `at_once` keep a core busy. False
 * where none can be started. */
bool task_begin(task *begun, size_t threads, size_t at_once);

/* Between these two the calling thread waits for a disk or a network, and another one may have its
 * core. They do nothing in a thread that is not one of these. */
void task_blocks(void);
void task_goes_on(void);

/* Whether a thread works on it, or has done, or does so within `microseconds`. Else it is idle again,
 * for its owner to do. */
bool task_begins(task *begun, unsigned microseconds);

/* Waits for a task that a thread works on. False if that takes more than `microseconds`. */
bool task_wait(task *begun, unsigned microseconds);

/* Whether it is done, so that what it has made can be taken. A forked child has not the threads of
 * its parent: of what these worked on nothing comes. */
bool task_is_done(task *begun);

/* Its owner goes. The task is ended now, or behind its run. */
void task_leave(task *left);

/* Each extension module links these functions, and would have threads of its own. The core lends its
 * own to the others. */
typedef struct {
    bool (*begin)(task *, size_t, size_t);
    bool (*begins)(task *, unsigned);
    bool (*wait)(task *, unsigned);
    bool (*is_done)(task *);
    void (*leave)(task *);
} task_functions;

#define TASKS_CAPSULE "tfio_store.tasks"

const task_functions *tasks_lend(void);

/* From here on the lent threads serve. No task may be begun before. */
void tasks_borrow(const task_functions *lent);

#endif
