/* Which CRC32C kernel runs: the first of the list that this CPU supports. */
#include "crc32c/crc32c.h"

const crc32c_kernel *const crc32c_kernels[] = {
#if defined(__x86_64__)
    &crc32c_avx512,   &crc32c_avx2, &crc32c_sse42,
#elif defined(__aarch64__)
    &crc32c_armv8,
#endif
    &crc32c_portable, NULL,
};

/* The portable kernel serves until the constructor has run. */
const crc32c_kernel *crc32c_active = &crc32c_portable;

__attribute__((constructor)) static void choose_kernel(void) {
    size_t i = 0;
    while (!crc32c_kernels[i]->supported()) i++;
    crc32c_active = crc32c_kernels[i];
}
