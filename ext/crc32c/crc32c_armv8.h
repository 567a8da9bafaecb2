/* One step of CRC32C with the instruction of ARMv8, over 8 bytes, 4 or 1. Clang declares the
 * intrinsics only where the whole file is compiled for a CPU that has them, its builtins everywhere. */
#ifndef TFIO_STORE_CRC32C_ARMV8_H
#define TFIO_STORE_CRC32C_ARMV8_H

#include <arm_acle.h>
#include <stdint.h>

#if defined(__clang__)
#define CRC32C_ARMV8_TARGET __attribute__((target("crc,aes")))
#define CRC32C_ARMV8_STEP(state, word) ((uint64_t)__builtin_arm_crc32cd((uint32_t)(state), word))
#define CRC32C_ARMV8_HALF(state, half) ((uint64_t)__builtin_arm_crc32cw((uint32_t)(state), half))
#define CRC32C_ARMV8_BYTE(state, byte) ((uint64_t)__builtin_arm_crc32cb((uint32_t)(state), byte))
#else
#define CRC32C_ARMV8_TARGET __attribute__((target("+crc+crypto")))
#define CRC32C_ARMV8_STEP(state, word) ((uint64_t)__crc32cd((uint32_t)(state), word))
#define CRC32C_ARMV8_HALF(state, half) ((uint64_t)__crc32cw((uint32_t)(state), half))
#define CRC32C_ARMV8_BYTE(state, byte) ((uint64_t)__crc32cb((uint32_t)(state), byte))
#endif

#endif
