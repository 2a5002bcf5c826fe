// SPDX-License-Identifier: MIT
// How a thread's floating-point unit is set: the direction of rounding, whether subnormal numbers
// are flushed to zero, what traps. It belongs to the host program (linked with -ffast-math it may
// flush; it may round upwards, or trap divisions by zero), and a new thread starts with its
// creator's. One prompt has one answer only under one setting, so whatever computes for a caller
// stands between ht_float_enter and ht_float_leave.
//
// Registers: x86-64 MXCSR (Intel SDM volume 1, 10.2.3) and the x87 unit's environment (8.1.10), by
// whose control word C libraries round what they print and read, AArch64 FPCR and FPSR (Arm ARM,
// C5.2).
#ifndef HT_BASE_FLOAT_ENV_H
#define HT_BASE_FLOAT_ENV_H

#include <fenv.h>
#include <stdint.h>

struct ht_float_env {
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint8_t x87[28];
#elif defined(__aarch64__)
    uint64_t fpcr, fpsr;
#else
    fenv_t env;
#endif
};

// Sets the calling thread's to the default (to nearest, subnormals kept, no traps) and returns what
// it was, exceptions raised so far included.
struct ht_float_env ht_float_enter(void);
void ht_float_leave(struct ht_float_env kept);

#endif
