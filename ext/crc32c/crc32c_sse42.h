/* One step of CRC32C with the instruction of SSE4.2. */
#ifndef TFIO_STORE_CRC32C_SSE42_H
#define TFIO_STORE_CRC32C_SSE42_H

#include <nmmintrin.h>
#include <stdint.h>

#define CRC32C_SSE42_STEP(state, word) ((uint64_t)_mm_crc32_u64(state, word))
#define CRC32C_SSE42_BYTE(state, byte) ((uint64_t)_mm_crc32_u8((uint32_t)(state), byte))

#endif
