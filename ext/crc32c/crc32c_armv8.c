/* CRC32C with the instruction of ARMv8, lanes joined by PMULL. */
#if defined(__aarch64__)
#include "crc32c/crc32c_armv8.h"

#include <arm_neon.h>

#define TARGET CRC32C_ARMV8_TARGET
#define STEP CRC32C_ARMV8_STEP
#define BYTE CRC32C_ARMV8_BYTE
#define MULTIPLY multiply

#if defined(__clang__)
#define PRODUCT __builtin_neon_vmull_p64
#else
#define PRODUCT vmull_p64
#endif

TARGET static inline uint64_t multiply(uint64_t a, uint32_t b) {
    return vgetq_lane_u64(vreinterpretq_u64_p128(PRODUCT((poly64_t)a, (poly64_t)b)), 0);
}

#include "crc32c/crc32c_lanes.h"

#if defined(__APPLE__)
static bool supported(void) { return true; }
#else
#include <sys/auxv.h>

static bool supported(void) {
    unsigned long both = 1UL << 7 | 1UL << 4; /* HWCAP_CRC32, HWCAP_PMULL */
    return (getauxval(AT_HWCAP) & both) == both;
}
#endif

const crc32c_kernel crc32c_armv8 = {"armv8", CRC32C_ARMV8, supported, extend};
#endif
