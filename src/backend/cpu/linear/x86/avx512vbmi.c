// SPDX-License-Identifier: MIT
// The packer of IQ3_S for processors with AVX512-VBMI, whose permutations look bytes up in
// registers (vec_avx512.h): of levels avx512bf16 and amx, and of avx512vnni where the
// processor can. No state; any thread.
#include "backend/cpu/linear/x86/gather.h"

#define CODES_SIGNED 0
#define PANEL_BACK   1

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#include "backend/cpu/linear/q8_pack.h"

PACK(, HT_IQ3_S, ht_vbmi_iq3_s)
