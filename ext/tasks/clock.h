/* How long work takes. Who includes this asks for POSIX first. */
#ifndef TFIO_STORE_CLOCK_H
#define TFIO_STORE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Since any moment. */
static inline uint64_t nanoseconds(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
