#include "tensorflow/ops/philox.h"

#include <string.h>

enum { ROUNDS = 10 };

philox philox_new(uint64_t seed, uint64_t seed2) {
    return (philox){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                    .counter = {0, 0, (uint32_t)seed2, (uint32_t)(seed2 >> 32)},
                    .used = 4};
}

void philox_refill(philox *of) {
    uint32_t key[2] = {of->key[0], of->key[1]}, x[4];
    memcpy(x, of->counter, sizeof x);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ x[1] ^ key[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ x[3] ^ key[1], (uint32_t)a};
        memcpy(x, next, sizeof x);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    memcpy(of->drawn, x, sizeof x);
    of->used = 0;
    if (++of->counter[0] == 0) of->counter[1]++;
}
