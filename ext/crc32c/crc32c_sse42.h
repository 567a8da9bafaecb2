/* One step of CRC32C with the instruction of SSE4.2, over 8 bytes, 4 or 1. */
#ifndef TFIO_STORE_CRC32C_SSE42_H
#define TFIO_STORE_CRC32C_SSE42_H

#include <nmmintrin.h>
#include <stdint.h>

/* What a function is compiled for that takes such steps. Clang counts this instruction by itself. */
#if defined(__clang__) && __clang_major__ >= 14
#define CRC32C_SSE42_TARGET "sse4.2,crc32,pclmul"
#else
#define CRC32C_SSE42_TARGET "sse4.2,pclmul"
#endif

#define CRC32C_SSE42_STEP(state, word) ((uint64_t)_mm_crc32_u64(state, word))
#define CRC32C_SSE42_HALF(state, half) ((uint64_t)_mm_crc32_u32((uint32_t)(state), half))
#define CRC32C_SSE42_BYTE(state, byte) ((uint64_t)_mm_crc32_u8((uint32_t)(state), byte))

#endif
