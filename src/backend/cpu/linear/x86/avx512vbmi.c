// SPDX-License-Identifier: MIT
// The packer and the streams of formats of entries for processors with AVX512-VBMI, whose
// permutations look them up in registers: of levels avx512bf16 and amx, and of avx512vnni where
// there is VBMI, too. No state; any thread.
#include "backend/cpu/linear/x86/gather.h"

#define CODES_SIGNED 0
#define PANEL_BACK   1
#define ENTRY_LOOKUP "backend/cpu/linear/x86/entries_vbmi.h"

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#include "backend/cpu/linear/q8_entries.h"

PACK_ENTRIES(, ENTRIES_OWN, ht_vbmi_pack)
STREAM_ENTRIES(, HT_IQ2_XXS, ht_vbmi_iq2_xxs)
STREAM_ENTRIES(, HT_IQ2_XS, ht_vbmi_iq2_xs)
STREAM_ENTRIES(, HT_IQ2_S, ht_vbmi_iq2_s)
STREAM_ENTRIES(, HT_IQ3_XXS, ht_vbmi_iq3_xxs)
STREAM_ENTRIES(, HT_IQ3_S, ht_vbmi_iq3_s)
