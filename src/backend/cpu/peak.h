// SPDX-License-Identifier: MIT
// The ceilings of a machine: loops that do nothing but multiply registers or read memory, one table
// a CPU level, and the measurement that runs them on every thread of a team at once. What the
// kernels reach is told as a share of this. Keeps no state.
#ifndef HT_CPU_PEAK_H
#define HT_CPU_PEAK_H

#include "backend/cpu/features.h"
#include "base/team.h"

// Independent sums of a loop: more than the latency of any multiply-add times its pipes. A level's
// file may say more in front.
#ifndef HT_PEAK_SUMS
#define HT_PEAK_SUMS 12
#endif

struct ht_peak_kernels {
    // n rounds of HT_PEAK_SUMS instructions, each round making *_macs multiply-adds. int8 is
    // how the level's linear kernels multiply codes, i16 how its attention does.
    void (*int8)(uint64_t n);
    void (*i16)(uint64_t n);
    void (*bf16)(uint64_t n); // NULL: bf16 is multiplied as f32
    void (*f32)(uint64_t n);
    uint32_t int8_macs, i16_macs, bf16_macs, f32_macs;
    void (*read)(const void *p, size_t n_bytes); // 64-byte aligned, a multiple of 256 bytes
};

void ht_peak_kernels_init(struct ht_peak_kernels *k, enum ht_cpu_level level);
void ht_peak_init_avx2(struct ht_peak_kernels *k);
void ht_peak_init_avx2vnni(struct ht_peak_kernels *k);
void ht_peak_init_avx512(struct ht_peak_kernels *k);
void ht_peak_init_avx512vnni(struct ht_peak_kernels *k);
void ht_peak_init_avx512bf16(struct ht_peak_kernels *k);
void ht_peak_init_amx(struct ht_peak_kernels *k);
void ht_peak_init_neon(struct ht_peak_kernels *k);
void ht_peak_init_neon_dotprod(struct ht_peak_kernels *k);
void ht_peak_init_neon_i8mm(struct ht_peak_kernels *k);

// budget_ms for each of the six numbers, with all threads: reading, the best of a few rounds;
// multiplying, the median of many, since a processor may be faster for a moment than it stays; the
// slowest thread, over all rounds.
// The buffer that is read has as many of max_bytes as can be touched in budget_ms, at least
// min_bytes, which should be well beyond the last cache; max_bytes: at least 256 KB a thread.
HT_MUST_CHECK enum hearth_status ht_peak_measure(struct ht_team *team, enum ht_cpu_level level,
                                                 uint32_t budget_ms, uint64_t min_bytes,
                                                 uint64_t max_bytes, struct hearth_ceilings *out,
                                                 struct hearth_error *err);

// All of *out but reading.
void ht_peak_multiply(struct ht_team *team, enum ht_cpu_level level, uint32_t budget_ms,
                      struct hearth_ceilings *out);

struct ht_peak_part { // memory that is read in a pass
    const uint8_t *p;
    uint64_t n_bytes;
};
// Bytes a second at which the threads together read the parts where they lie, each its share of
// every part, and do nothing else: the best of the passes that begin within budget_ms, of four at
// least, since the first may find that they have no pages yet and every second one reads otherwise.
double ht_peak_read(struct ht_team *team, enum ht_cpu_level level, const struct ht_peak_part *parts,
                    size_t n_parts, uint32_t budget_ms);

// UNROLL's 16 turns of gcc would leave more sums than that in memory.
#if defined(__clang__)
#define PEAK_UNROLL UNROLL
#else
#define PEAK_UNROLL _Pragma("GCC unroll 32")
#endif
_Static_assert(HT_PEAK_SUMS <= 32, "PEAK_UNROLL");

// A loop of struct ht_peak_kernels: HT_PEAK_SUMS independent sums of `type`, each increased by
// step(sum, x, y). To the compiler x is something else each time, and no sum what another is; reg
// is the constraint of a vector register in asm.
#define HT_PEAK_LOOP(name, type, zero, operand, value, reg, step)                                  \
    static void name(uint64_t n) {                                                                 \
        type sum[HT_PEAK_SUMS];                                                                    \
        operand x = value, y = value;                                                              \
        __asm__ volatile("" : "+" reg(y));                                                         \
        PEAK_UNROLL                                                                                \
        for (int i = 0; i < HT_PEAK_SUMS; i++) {                                                   \
            sum[i] = zero;                                                                         \
            __asm__ volatile("" : "+" reg(sum[i]));                                                \
        }                                                                                          \
        for (; n > 0; n--) {                                                                       \
            PEAK_UNROLL                                                                            \
            for (int i = 0; i < HT_PEAK_SUMS; i++) {                                               \
                __asm__ volatile("" : "+" reg(x));                                                 \
                sum[i] = step(sum[i], x, y);                                                       \
            }                                                                                      \
        }                                                                                          \
        PEAK_UNROLL                                                                                \
        for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::reg(sum[i]));                 \
    }

#endif
