// SPDX-License-Identifier: MIT
// The packer and, but for IQ1, the streams of formats of entries for processors with AVX512-VBMI,
// whose permutations look them up in registers: of levels avx512bf16 and amx, and of avx512vnni
// where there is VBMI, too. No state; any thread.
#include "backend/cpu/linear/x86/shared.h"

#define CODES_SIGNED 0
#define PANEL_BACK   1
#define ENTRY_LOOKUP "backend/cpu/linear/x86/entries_vbmi.h"

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#include "backend/cpu/linear/q8_entries.h"

PACK_ENTRIES(, ENTRIES_OWN, ht_vbmi_pack)
#define VBMI_STREAM(id, name, n, two, small)                                                       \
    STREAM_ENTRIES_ALONE(, id, HT_ENTRIES_VBMI(name), n, two)
HT_IQ2_IQ3_STREAMS(VBMI_STREAM)
