/* Framing loops with the CRC instruction of ARMv8. */
#if defined(__aarch64__)
#include "crc32c/crc32c_armv8.h"

#define LOOPS tfrecord_armv8
#define TARGET CRC32C_ARMV8_TARGET
#define STEP CRC32C_ARMV8_STEP
#define HALF CRC32C_ARMV8_HALF

#include "tfrecord/tfrecord_loops.h"
#endif
