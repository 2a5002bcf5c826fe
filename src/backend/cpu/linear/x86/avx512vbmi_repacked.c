// SPDX-License-Identifier: MIT
// What avx512vnni_repacked.c has, of the formats whose codes are looked up in a table, and packers
// for products of sums, for processors with AVX512-VBMI: an index's upper bits need not be cleared
// there (vec_avx512.h). No state; any thread.
#include "backend/cpu/linear/x86/repacked.h"
#include "backend/cpu/linear/x86/sums.h"

#define ASK_PAGES 1
#define REPACKED
#define CODES_SIGNED 0
#define PANEL_BACK   1

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#define PAIRS_TOKENS  4
#define PAIRS_ALIKE   0
#define PAIRS_SIDE(n) 2
#define NAME          HT_AVX512_REPACKED
#define LOOKUPS

#include "backend/cpu/linear/x86/repacked_codes.h"

PACK_FOR_SUMS(HT_Q4_0, ht_repacked_sums_pack_q4_0)
PACK_FOR_SUMS(HT_Q4_K, ht_repacked_sums_pack_q4_k)
