/* The random numbers that TensorFlow's kernels draw from a seed: Philox 4x32 with 10 rounds, one 32-bit
 * number after the other (tensorflow/core/lib/random/philox_random.h, SingleSampleAdapter).
 */
#ifndef TFIO_STORE_TF_PHILOX_H
#define TFIO_STORE_TF_PHILOX_H

#include <stdint.h>

typedef struct {
    uint32_t key[2], counter[4], drawn[4];
    unsigned used; /* of `drawn` */
} philox;

/* The generator of a pair of seeds. */
philox philox_new(uint64_t seed, uint64_t seed2);

void philox_refill(philox *of);

static inline uint32_t philox_next(philox *of) {
    if (of->used == 4) philox_refill(of);
    return of->drawn[of->used++];
}

#endif
