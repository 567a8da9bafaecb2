/* Framing loops for any CPU. */
#include "crc32c/crc32c_portable.h"

#define LOOPS tfrecord_portable
#define TARGET
#define STEP crc32c_portable_step
#define HALF crc32c_portable_half

#include "tfrecord/tfrecord_loops.h"
