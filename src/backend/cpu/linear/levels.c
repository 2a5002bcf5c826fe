// SPDX-License-Identifier: MIT
// Which matrices the linear step can multiply, and the kernels of each level. Any thread.
#include "backend/cpu/features.h"
#include "backend/cpu/linear/kernels.h"
#include "base/checked.h"

// Of a matrix: 32 bits hold the way from a row to the fifteenth behind it, which gathers take.
#define MAX_SIDE (UINT32_MAX / 32)

#define ROW_OF(f) [f] = f##_ROW,
const uint8_t ht_format_row[HT_N_FORMATS] = {HT_MULTIPLIED(ROW_OF)};
#undef ROW_OF

enum hearth_status ht_linear_supports(enum ht_format f, uint64_t n_in, uint64_t n_out,
                                      struct hearth_error *err) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    uint64_t row_bytes, total;
    if (!info) return ht_fail(err, HEARTH_E_UNSUPPORTED, "tensor type %d is not known", (int)f);
    if (!ht_linear_scalar.format[ht_format_row[f]].pack)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "no kernel multiplies weights of format %s",
                       info->name);
    if (n_in == 0 || n_in > MAX_SIDE || n_out == 0 || n_out > MAX_SIDE)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "a matrix of %llu x %llu weights: each side must be between 1 and %u",
                       (unsigned long long)n_out, (unsigned long long)n_in, MAX_SIDE);
    if (!ht_format_row_bytes(f, n_in, &row_bytes))
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "rows of %llu weights are not whole blocks of %u, which format %s needs",
                       (unsigned long long)n_in, info->block_len, info->name);
    if (!ht_mul_u64(row_bytes, n_out, &total) || total > SIZE_MAX)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "a matrix of %llu x %llu weights is too large",
                       (unsigned long long)n_out, (unsigned long long)n_in);
    return HEARTH_OK;
}

const struct ht_linear_kernels *ht_linear_kernels_get(int level) {
    switch (level) {
#if defined(__x86_64__)
    case HT_CPU_AVX2: return ht_cpu_amd() ? &ht_linear_avx2_amd : &ht_linear_avx2;
    case HT_CPU_AVX2VNNI: return &ht_linear_avx2vnni;
    case HT_CPU_AVX512: return &ht_linear_avx512;
    case HT_CPU_AVX512VNNI:
        return ht_cpu_vbmi() ? &ht_linear_avx512vnni_vbmi : &ht_linear_avx512vnni;
    case HT_CPU_AVX512BF16:
        return ht_cpu_wide_units() ? &ht_linear_avx512bf16_wide : &ht_linear_avx512bf16;
    case HT_CPU_AMX: return &ht_linear_amx;
#elif defined(__aarch64__)
    case HT_CPU_NEON: return &ht_linear_neon;
    case HT_CPU_NEON_DOTPROD: return &ht_linear_neon_dotprod;
    case HT_CPU_NEON_I8MM: return &ht_linear_neon_i8mm;
#endif
    default: return &ht_linear_scalar;
    }
}
