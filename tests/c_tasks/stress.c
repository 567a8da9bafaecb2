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

typedef struct {
    task task;
    unsigned runs;
} counted;

static atomic_long made, ended, ran;

static void run(task *begun) {
    ((counted *)begun)->runs++;
    atomic_fetch_add(&ran, 1);
}

static void end(task *left) {
    atomic_fetch_add(&ended, 1);
    free(left);
}

static counted *begin(void) {
    counted *begun = calloc(1, sizeof(*begun));
    if (begun == NULL) abort();
    task_make(&begun->task, run, end);
    atomic_fetch_add(&made, 1);
    if (!task_begin(&begun->task, 4)) abort();
    return begun;
}

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

int main(int argc, char **argv) {
    (void)argv;
    pthread_t owners[OWNERS];
    for (int turn = 0; argc > 1 && turn < 20; turn++) fork_in_the_middle();
    for (uintptr_t i = 0; i < OWNERS; i++)
        if (pthread_create(&owners[i], NULL, own, (void *)(i + 1)) != 0) abort();
    for (int i = 0; i < OWNERS; i++) pthread_join(owners[i], NULL);
    for (int i = 0; i < 1000 && atomic_load(&ended) < atomic_load(&made); i++) usleep(10000);
    if (atomic_load(&ended) != atomic_load(&made)) abort(); /* each once */
    printf("%ld tasks, %ld of them run\n", atomic_load(&made), atomic_load(&ran));
    return 0;
}
