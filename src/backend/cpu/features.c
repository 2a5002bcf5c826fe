// SPDX-License-Identifier: MIT
// CPU levels: what the processor has and the operating system saves, asked once per call from cpuid
// and xgetbv, or getauxval on Arm. No state; any thread. A level is usable only with every feature
// of its bundle and of the levels below it on the same architecture (but avx512 does not ask for
// AVX-VNNI, which processors with AVX-512 had late or not at all).
#include "backend/cpu/features.h"

#include <string.h>
#include <strings.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static const char *const level_names[HT_CPU_N_LEVELS] = {
    [HT_CPU_SCALAR] = "scalar",
    [HT_CPU_AVX2] = "avx2",
    [HT_CPU_AVX2VNNI] = "avx2vnni",
    [HT_CPU_AVX512] = "avx512",
    [HT_CPU_AVX512VNNI] = "avx512vnni",
    [HT_CPU_AVX512BF16] = "avx512bf16",
    [HT_CPU_AMX] = "amx",
    [HT_CPU_NEON] = "neon",
    [HT_CPU_NEON_DOTPROD] = "neon_dotprod",
    [HT_CPU_NEON_I8MM] = "neon_i8mm",
};

#if defined(__x86_64__)

static uint64_t xgetbv0(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has(uint32_t word, int bit) {
    return (word >> bit & 1) != 0;
}

static bool has_avx_vnni(void) {
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, 4);
}

// Linux keeps 8 KB of tiles for threads that use them, and wants to be asked first, as often as one
// likes. What it allows it allows the whole process for good, which from then on may have no signal
// stacks too small for tiles (Documentation/arch/x86/xstate.rst); so an engine of another level
// does not ask.
static bool may_use_tiles(uint64_t saved) {
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILE_DATA = 18 };
    return (saved >> 17 & 3) == 3 &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA) == 0;
#else
    (void)saved;
    return false;
#endif
}

static enum ht_cpu_level highest_level(bool with_tiles) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return HT_CPU_SCALAR;
    bool osxsave = has(c, 27), avx = has(c, 28), fma = has(c, 12), f16c = has(c, 29);
    if (!osxsave || !avx || !fma || !f16c) return HT_CPU_SCALAR;
    uint64_t saved = xgetbv0();
    if ((saved & 0x6) != 0x6) return HT_CPU_SCALAR; // xmm, ymm
    uint32_t b7, c7, d7, a71, b71, c71, d71;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return HT_CPU_SCALAR;
    if (!has(b7, 5) || !has(b7, 8)) return HT_CPU_SCALAR; // AVX2, BMI2
    enum ht_cpu_level without_512 = has_avx_vnni() ? HT_CPU_AVX2VNNI : HT_CPU_AVX2;
    if ((saved & 0xe6) != 0xe6) return without_512; // + opmask, zmm 0-15, zmm 16-31
    bool f = has(b7, 16), dq = has(b7, 17), bw = has(b7, 30), vl = has(b7, 31);
    if (!f || !dq || !bw || !vl) return without_512;
    if (!__get_cpuid_count(7, 1, &a71, &b71, &c71, &d71)) a71 = 0;
    if (!has(c7, 11)) return HT_CPU_AVX512;                    // VNNI
    if (!has(a71, 5) || !has(c7, 1)) return HT_CPU_AVX512VNNI; // BF16, VBMI
    bool amx = has(d7, 22) && has(d7, 24) && has(d7, 25);      // BF16, TILE, INT8
    return amx && with_tiles && may_use_tiles(saved) ? HT_CPU_AMX : HT_CPU_AVX512BF16;
}

static bool made_by(const char *maker) {
    uint32_t a, name[3];
    return __get_cpuid(0, &a, &name[0], &name[2], &name[1]) &&
           memcmp(name, maker, sizeof name) == 0;
}

// Family 1Ah is Zen 5. (Its mobile kinds have units of 256 bits; which is no feature of cpuid.)
bool ht_cpu_wide_units(void) {
    uint32_t a, b, c, d;
    if (!made_by("AuthenticAMD") || !__get_cpuid(1, &a, &b, &c, &d)) return false;
    uint32_t family = (a >> 8 & 15) + (a >> 20 & 255);
    return family >= 0x1a;
}

bool ht_cpu_vbmi(void) {
    uint32_t a, b, c, d;
    return highest_level(false) >= HT_CPU_AVX512VNNI && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           has(c, 1);
}

bool ht_cpu_amd(void) {
    return made_by("AuthenticAMD");
}

bool ht_cpu_amd_512(void) {
    return ht_cpu_amd() && highest_level(false) >= HT_CPU_AVX512;
}

// avx512bf16 multiplies BF16 by vdpbf16ps, which on Intel's processors takes two cycles (Emerald
// Rapids: 89 GMAC/s of two threads; by f32 179), and asks the memory in the order that suits AMD's.
enum ht_cpu_level ht_cpu_best_level(void) {
    enum ht_cpu_level l = highest_level(true);
    return l == HT_CPU_AVX512BF16 && made_by("GenuineIntel") ? HT_CPU_AVX512VNNI : l;
}

bool ht_cpu_level_usable(enum ht_cpu_level l) {
    if (l < HT_CPU_SCALAR || l > HT_CPU_AMX || l > highest_level(l == HT_CPU_AMX)) return false;
    return l != HT_CPU_AVX2VNNI || has_avx_vnni();
}

#elif defined(__aarch64__)

// Bits of the kernel's ABI (asm/hwcap.h), spelt out since older headers lack some.
#define CAP_ASIMD   (1ul << 1)
#define CAP_ASIMDDP (1ul << 20)
#define CAP2_I8MM   (1ul << 13)

enum ht_cpu_level ht_cpu_best_level(void) {
    unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);
    if (!(cap & CAP_ASIMD)) return HT_CPU_SCALAR;
    if (!(cap & CAP_ASIMDDP)) return HT_CPU_NEON;
    return cap2 & CAP2_I8MM ? HT_CPU_NEON_I8MM : HT_CPU_NEON_DOTPROD;
}

bool ht_cpu_level_usable(enum ht_cpu_level l) {
    if (l == HT_CPU_SCALAR) return true;
    return l >= HT_CPU_NEON && l < HT_CPU_N_LEVELS && l <= ht_cpu_best_level();
}

#else

enum ht_cpu_level ht_cpu_best_level(void) {
    return HT_CPU_SCALAR;
}

bool ht_cpu_level_usable(enum ht_cpu_level l) {
    return l == HT_CPU_SCALAR;
}

#endif

#if !defined(__x86_64__) // what no level says matters there alone
bool ht_cpu_vbmi(void) {
    return false;
}

bool ht_cpu_wide_units(void) {
    return false;
}

bool ht_cpu_amd(void) {
    return false;
}

bool ht_cpu_amd_512(void) {
    return false;
}
#endif

const char *ht_cpu_level_name(enum ht_cpu_level l) {
    return l >= 0 && l < HT_CPU_N_LEVELS ? level_names[l] : "?";
}

enum hearth_status ht_cpu_level_parse(const char *name, enum ht_cpu_level *out,
                                      struct hearth_error *err) {
    char list[128] = "";
    int found = 0;
    while (found < HT_CPU_N_LEVELS && strcasecmp(name, level_names[found]) != 0) found++;
    const bool known = found < HT_CPU_N_LEVELS;
    if (known && ht_cpu_level_usable((enum ht_cpu_level)found)) {
        *out = (enum ht_cpu_level)found;
        return HEARTH_OK;
    }
    for (int l = 0; l < HT_CPU_N_LEVELS; l++) { // all, or those that there are here
        if (known && !ht_cpu_level_usable((enum ht_cpu_level)l)) continue;
        if (list[0]) strcat(list, ", ");
        strcat(list, level_names[l]);
    }
    if (known)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "CPU level \"%s\" cannot run on this machine, which has: %s", name, list);
    return ht_fail(err, HEARTH_E_ARG, "no CPU level is called \"%.40s\"; there are: %s", name,
                   list);
}
