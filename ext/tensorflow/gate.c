#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "tensorflow/gate.h"

#include <stdatomic.h>
#include <time.h>

static atomic_int inside;
static atomic_bool closed;

bool gate_enter(void) {
    /* Count first and ask afterwards: so whoever closes sees us, or we see the closing. */
    atomic_fetch_add(&inside, 1);
    if (!atomic_load(&closed)) return true;
    atomic_fetch_sub(&inside, 1);
    return false;
}

void gate_leave(void) { atomic_fetch_sub(&inside, 1); }

void gate_close(void) { atomic_store(&closed, true); }

bool gate_drain(double seconds) {
    const struct timespec nap = {0, 1000000};
    for (double waited = 0; atomic_load(&inside) > 0; waited += 1e-3) {
        if (waited >= seconds) return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

void gate_after_fork(void) { atomic_store(&inside, 0); }
