// SPDX-License-Identifier: MIT
// Compilers take arithmetic for independent of these registers, so what is to run under them should
// be a call between the two, as they are calls themselves.
#include "base/float_env.h"

#if defined(__x86_64__)

#define MXCSR_DEFAULT 0x1f80u // all exceptions masked, to nearest
#define X87_DEFAULT   0x037fu // the same, 64 bits of mantissa

struct ht_float_env ht_float_enter(void) {
    struct ht_float_env kept;
    const uint32_t mxcsr = MXCSR_DEFAULT;
    const uint16_t x87 = X87_DEFAULT;
    __asm__ volatile("stmxcsr %0\n\tfnstenv %1" : "=m"(kept.mxcsr), "=m"(kept.x87));
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" ::"m"(mxcsr), "m"(x87));
    return kept;
}

void ht_float_leave(struct ht_float_env kept) {
    __asm__ volatile("ldmxcsr %0\n\tfldenv %1" ::"m"(kept.mxcsr), "m"(kept.x87));
}

#elif defined(__aarch64__)

static void set(uint64_t fpcr, uint64_t fpsr) {
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" ::"r"(fpcr), "r"(fpsr));
}

struct ht_float_env ht_float_enter(void) {
    struct ht_float_env kept;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(kept.fpcr), "=r"(kept.fpsr));
    set(0, 0);
    return kept;
}

void ht_float_leave(struct ht_float_env kept) {
    set(kept.fpcr, kept.fpsr);
}

#else

struct ht_float_env ht_float_enter(void) {
    struct ht_float_env kept;
    fegetenv(&kept.env);
    fesetenv(FE_DFL_ENV);
    return kept;
}

void ht_float_leave(struct ht_float_env kept) {
    fesetenv(&kept.env);
}

#endif
