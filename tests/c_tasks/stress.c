/* Owners that begin, wait for, take back and leave tasks at once. With an argument it forks, too: the
 * sanitizers may hold a lock of their own at a fork, which the child then waits for. */
#define _DEFAULT_SOURCE /* usleep */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tasks/tasks.h"

#define OWNERS 6
#define TURNS 3000
#define AT_ONCE 8
#define THREADS 4
#define BUSY 2

typedef struct {
    task task;
    unsigned runs;
} counted;

static atomic_long made, ended, ran;

static void run(task *begun) {
    ((counted *)begun)->runs++;
    long number = atomic_fetch_add(&ran, 1);
    if (number % 7 == 0) {
        task_blocks();
        if (number % 700 == 0) usleep(1000);
        task_goes_on();
    }
}

static void end(task *left) {
    atomic_fetch_add(&ended, 1);
    free(left);
}

static counted *begin_with(void (*what)(task *)) {
    counted *begun = calloc(1, sizeof(*begun));
    if (begun == NULL) abort();
    task_make(&begun->task, what, end);
    atomic_fetch_add(&made, 1);
    if (!task_begin(&begun->task, THREADS, BUSY)) abort();
    return begun;
}

static counted *begin(void) { return begin_with(run); }

static void finish(counted *begun, unsigned how) {
    if (how % 5 == 0) {
        task_leave(&begun->task);
        return;
    }
    if (!task_begins(&begun->task, how % 3 ? 0 : 100))
        run(&begun->task);
    else
        while (!task_wait(&begun->task, 1000)) continue;
    if (begun->runs != 1) abort();
    task_leave(&begun->task);
}

static void *own(void *seed) {
    unsigned how = (unsigned)(uintptr_t)seed;
    counted *begun[AT_ONCE] = {NULL};
    for (int turn = 0; turn < TURNS; turn++) {
        counted **place = &begun[turn % AT_ONCE];
        how = how * 1103515245 + 12345;
        if (*place != NULL) finish(*place, how >> 16);
        *place = begin();
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (begun[i] != NULL) finish(begun[i], 1);
    return NULL;
}

static void fork_in_the_middle(void) {
    counted *begun[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) begun[i] = begin();
    pid_t child = fork();
    if (child == 0) {
        /* what the parent's threads work on is lost; the rest is done here, and so are others */
        for (int i = 0; i < AT_ONCE; i++)
            if (!task_begins(&begun[i]->task, 0)) run(&begun[i]->task);
        counted *own = begin();
        while (!task_wait(&own->task, 1000)) continue;
        _exit(own->runs == 1 ? 0 : 1);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) abort();
    for (int i = 0; i < AT_ONCE; i++) finish(begun[i], 1);
}

static atomic_int inside, most_inside;

static void run_for_long(task *begun) {
    int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
    while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now)) continue;
    usleep(1000);
    atomic_fetch_sub(&inside, 1);
    run(begun);
}

/* Ends when as many wait as there are threads. */
static void run_when_all_wait(task *begun) {
    task_blocks();
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&inside) < THREADS) usleep(100);
    task_goes_on();
    run(begun);
}

static void finish_all(counted **begun, int count) {
    for (int i = 0; i < count; i++) {
        while (!task_wait(&begun[i]->task, 1000)) continue;
        task_leave(&begun[i]->task);
    }
}

/* No more are busy than may be, and those that wait count for none. */
static void count_those_that_are_busy(void) {
    counted *begun[10 * THREADS];
    for (int i = 0; i < 10 * THREADS; i++) begun[i] = begin_with(run_for_long);
    finish_all(begun, 10 * THREADS);
    if (atomic_load(&most_inside) != BUSY) abort();
    for (int i = 0; i < THREADS; i++) begun[i] = begin_with(run_when_all_wait);
    finish_all(begun, THREADS);
}

int main(int argc, char **argv) {
    (void)argv;
    pthread_t owners[OWNERS];
    for (int turn = 0; argc > 1 && turn < 20; turn++) fork_in_the_middle();
    count_those_that_are_busy();
    for (uintptr_t i = 0; i < OWNERS; i++)
        if (pthread_create(&owners[i], NULL, own, (void *)(i + 1)) != 0) abort();
    for (int i = 0; i < OWNERS; i++) pthread_join(owners[i], NULL);
    for (int i = 0; i < 1000 && atomic_load(&ended) < atomic_load(&made); i++) usleep(10000);
    if (atomic_load(&ended) != atomic_load(&made)) abort(); /* each once */
    printf("%ld tasks, %ld of them run\n", atomic_load(&made), atomic_load(&ran));
    return 0;
}
