/* See tasks.h. One lock for all: it is held for as long as a list takes to change. */
#define _GNU_SOURCE /* pthread_setname_np */
#define _DARWIN_C_SOURCE
#include "tasks/tasks.h"

#include <signal.h>
#include <stdint.h>
#include <time.h>

#define STACK ((size_t)512 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER; /* there are tasks in the queue */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static task *first, *last;                 /* the queue */
static size_t queued, threads, idle, busy; /* `busy` are those that neither idle nor block */
static size_t most = 1, most_busy = 1;
static unsigned forks;
static _Thread_local bool works;

static task *take_first(void) {
    task *taken = first;
    first = taken->next;
    if (first == NULL) last = NULL;
    taken->next = NULL;
    queued--;
    return taken;
}

static void take_back(task *taken) {
    task *before = NULL;
    for (task *each = first; each != taken; each = each->next) before = each;
    if (before == NULL)
        first = taken->next;
    else
        before->next = taken->next;
    if (last == taken) last = before;
    taken->next = NULL;
    queued--;
    taken->stage = TASK_IDLE;
}

static void end(task *ended) {
    pthread_cond_destroy(&ended->changed);
    ended->end(ended);
}

static void *work(void *nothing) {
    (void)nothing;
    works = true;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (first == NULL || busy >= most_busy) {
            idle++;
            pthread_cond_wait(&some, &lock);
            idle--;
        }
        task *now = take_first();
        now->stage = TASK_RUNNING;
        busy++;
        pthread_cond_signal(&now->changed);
        pthread_mutex_unlock(&lock);
        now->run(now);
        pthread_mutex_lock(&lock);
        busy--;
        if (now->stage == TASK_LEFT) {
            pthread_mutex_unlock(&lock);
            end(now);
            pthread_mutex_lock(&lock);
        } else {
            now->stage = TASK_DONE;
            pthread_cond_signal(&now->changed);
        }
    }
    return NULL;
}

/* A child has the tasks of its parent, and none of its threads. */
static void before_fork(void) { pthread_mutex_lock(&lock); }

static void in_parent(void) { pthread_mutex_unlock(&lock); }

static void in_child(void) {
    forks++;
    threads = idle = busy = 0;
    while (first != NULL) {
        task *own = take_first();
        own->stage = TASK_IDLE;
        own->fork = forks;
    }
    pthread_cond_init(&some, NULL);
    pthread_mutex_unlock(&lock);
}

static void begin_once(void) { (void)pthread_atfork(before_fork, in_parent, in_child); }

/* Signals are for Python's threads. */
static bool start_thread(void) {
    pthread_t started;
    pthread_attr_t how;
    sigset_t all, before;
    if (pthread_attr_init(&how) != 0) return false;
    (void)pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&how, STACK);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&started, &how, work, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&how);
#ifdef __linux__
    if (good) (void)pthread_setname_np(started, "tfio_store");
#endif
    return good;
}

/* Waits until the task changes. False behind `until`. */
#ifdef __APPLE__
typedef uint64_t moment;

static uint64_t now(void) { return clock_gettime_nsec_np(CLOCK_MONOTONIC); }

static moment in(unsigned microseconds) { return now() + 1000 * (uint64_t)microseconds; }

static bool changes(task *waited, moment until) {
    uint64_t at = now(), left = until > at ? until - at : 0;
    struct timespec wait = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
    return left > 0 && pthread_cond_timedwait_relative_np(&waited->changed, &lock, &wait) == 0;
}
#else
typedef struct timespec moment;

static moment in(unsigned microseconds) {
    moment until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + 1000 * (uint64_t)microseconds;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    return until;
}

static bool changes(task *waited, moment until) {
    return pthread_cond_timedwait(&waited->changed, &lock, &until) == 0;
}
#endif

void task_make(task *made, void (*run)(task *), void (*end)(task *)) {
    *made = (task){.run = run, .end = end, .stage = TASK_IDLE};
    pthread_condattr_t how;
    (void)pthread_condattr_init(&how);
#ifndef __APPLE__
    (void)pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
#endif
    (void)pthread_cond_init(&made->changed, &how);
    (void)pthread_condattr_destroy(&how);
}

/* Lets a task in the queue begin, if one may. True where an idle thread is to be woken: more may be
 * idle than will be, since those that were woken count until they come. */
static bool begins_one(void) {
    size_t room = busy < most_busy ? most_busy - busy : 0, wanted = queued < room ? queued : room;
    if (idle < wanted && threads < most && start_thread()) threads++;
    return idle > 0 && wanted > 0;
}

static bool own_begin(task *begun, size_t of, size_t at_once) {
    (void)pthread_once(&once, begin_once); /* here: another module may have made the task */
    pthread_mutex_lock(&lock);
    if (of > most) most = of;
    if (at_once > most_busy) most_busy = at_once;
    queued++;
    begun->stage = TASK_QUEUED;
    begun->fork = forks;
    if (last == NULL)
        first = begun;
    else
        last->next = begun;
    last = begun;
    bool wakes = begins_one(), good = threads > 0;
    if (!good) take_back(begun);
    pthread_mutex_unlock(&lock);
    if (wakes) pthread_cond_signal(&some);
    return good;
}

void task_blocks(void) {
    if (!works) return;
    pthread_mutex_lock(&lock);
    busy--;
    bool wakes = begins_one();
    pthread_mutex_unlock(&lock);
    if (wakes) pthread_cond_signal(&some);
}

void task_goes_on(void) {
    if (!works) return;
    pthread_mutex_lock(&lock);
    busy++;
    pthread_mutex_unlock(&lock);
}

static bool own_begins(task *begun, unsigned microseconds) {
    pthread_mutex_lock(&lock);
    if (begun->stage == TASK_QUEUED && microseconds > 0) {
        moment until = in(microseconds);
        while (begun->stage == TASK_QUEUED && changes(begun, until)) continue;
    }
    if (begun->stage == TASK_QUEUED) take_back(begun);
    bool begins = begun->stage != TASK_IDLE;
    pthread_mutex_unlock(&lock);
    return begins;
}

static bool is_lost(const task *begun) {
    return begun->stage == TASK_RUNNING && begun->fork != forks;
}

static bool own_wait(task *begun, unsigned microseconds) {
    pthread_mutex_lock(&lock);
    moment until = in(microseconds);
    while (begun->stage != TASK_DONE && !is_lost(begun) && changes(begun, until)) continue;
    bool ended = begun->stage == TASK_DONE || is_lost(begun);
    pthread_mutex_unlock(&lock);
    return ended;
}

static bool own_is_done(task *begun) {
    pthread_mutex_lock(&lock);
    bool done = begun->stage == TASK_DONE;
    pthread_mutex_unlock(&lock);
    return done;
}

static void own_leave(task *left) {
    pthread_mutex_lock(&lock);
    if (left->stage == TASK_QUEUED) take_back(left);
    bool running = left->stage == TASK_RUNNING;
    if (running)
        left->stage = TASK_LEFT; /* of a lost one nothing is known, not even what it holds */
    pthread_mutex_unlock(&lock);
    if (!running) end(left);
}

static const task_functions own = {own_begin, own_begins, own_wait, own_is_done, own_leave};
static const task_functions *serving = &own;

bool task_begin(task *begun, size_t of, size_t at_once) {
    return serving->begin(begun, of, at_once);
}

bool task_begins(task *begun, unsigned microseconds) {
    return serving->begins(begun, microseconds);
}

bool task_wait(task *begun, unsigned microseconds) { return serving->wait(begun, microseconds); }

bool task_is_done(task *begun) { return serving->is_done(begun); }

void task_leave(task *left) { serving->leave(left); }

const task_functions *tasks_lend(void) { return serving; }

void tasks_borrow(const task_functions *lent) { serving = lent; }
