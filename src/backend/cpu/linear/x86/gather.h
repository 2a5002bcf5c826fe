// SPDX-License-Identifier: MIT
// Packers for processors that gather words faster than they insert them one by one, Intel's
// (avx512vnni_gather.c). The same panels as those of avx512vnni.c.
#ifndef HT_LINEAR_X86_GATHER_H
#define HT_LINEAR_X86_GATHER_H

#include "backend/cpu/linear/kernels.h"

ht_pack_fn ht_gather_q4_0, ht_gather_q5_0, ht_gather_q8_0, ht_gather_q4_k;
ht_pack_fn ht_gather_iq4_nl;

#endif
