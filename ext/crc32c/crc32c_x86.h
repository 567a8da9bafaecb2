/* What this x86-64 CPU can do, asked of the CPU itself. __builtin_cpu_supports asks the compiler's run-time
 * library, and Zig's says no to everything. */
#ifndef TFIO_STORE_CRC32C_X86_H
#define TFIO_STORE_CRC32C_X86_H

#include <cpuid.h>
#include <stdbool.h>

#define X86_PCLMUL (1u << 1) /* leaf 1, ecx */
#define X86_SSE42 (1u << 20)
#define X86_OSXSAVE (1u << 27)
#define X86_AVX2 (1u << 5) /* leaf 7, ebx */
#define X86_AVX512F (1u << 16)
#define X86_VPCLMULQDQ (1u << 10) /* leaf 7, ecx */

/* Registers that the system saves for a process, in XCR0. */
#define X86_SAVES_YMM 0x06u
#define X86_SAVES_ZMM 0xe6u

typedef struct {
    unsigned eax, ebx, ecx, edx;
} x86_leaf;

static inline x86_leaf x86_ask(unsigned leaf) {
    x86_leaf found = {0};
    if (!__get_cpuid_count(leaf, 0, &found.eax, &found.ebx, &found.ecx, &found.edx))
        found = (x86_leaf){0};
    return found;
}

static inline bool x86_has_crc(void) {
    const unsigned needed = X86_SSE42 | X86_PCLMUL;
    return (x86_ask(1).ecx & needed) == needed;
}

static inline bool x86_saves(unsigned registers) {
    if ((x86_ask(1).ecx & X86_OSXSAVE) == 0) return false;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}

/* Whether vectors can be folded that need `feature` and these registers. */
static inline bool x86_folds(unsigned feature, unsigned registers) {
    const x86_leaf found = x86_ask(7);
    return x86_has_crc() && (found.ebx & feature) != 0 && (found.ecx & X86_VPCLMULQDQ) != 0 &&
           x86_saves(registers);
}

#endif
