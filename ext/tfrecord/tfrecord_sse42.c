/* Framing loops with the CRC instruction of SSE4.2. */
#if defined(__x86_64__)
#include "crc32c/crc32c_sse42.h"

#define LOOPS tfrecord_sse42
#define TARGET __attribute__((target(CRC32C_SSE42_TARGET)))
#define STEP CRC32C_SSE42_STEP
#define HALF CRC32C_SSE42_HALF

#include "tfrecord/tfrecord_loops.h"
#endif
