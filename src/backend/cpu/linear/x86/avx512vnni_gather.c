// SPDX-License-Identifier: MIT
// The packers of the formats in most use once more, with scales by gathers and rows by loads of 32
// bytes: what avx512vnni and amx take. Inserting 16 scales takes Intel's processors as long as half
// of the codes; Zen 4 gathers slowly. The same panels. No state; any thread.
#include "backend/cpu/linear/x86/gather.h"

#define FAST_GATHER
#define CODES_SIGNED 0
#define PANEL_BACK   1

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#include "backend/cpu/linear/q8_pack.h"

PACK(, HT_Q4_0, ht_gather_q4_0)
PACK(, HT_Q5_0, ht_gather_q5_0)
PACK(, HT_Q8_0, ht_gather_q8_0)
PACK(, HT_Q4_K, ht_gather_q4_k)
PACK(, HT_IQ4_NL, ht_gather_iq4_nl)
