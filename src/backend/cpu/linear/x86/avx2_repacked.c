// SPDX-License-Identifier: MIT
// Packers and streams of codes that were repacked (linear.h), for the level avx2. No state; any
// thread.
#define REPACKED

#include "backend/cpu/linear/x86/avx2_repacked.h"
#include "backend/cpu/linear/x86/pairs_avx2.h"

#define PAIRS_TOKENS  4
#define PAIRS_ALIKE   1 // one code for three blocks: a fifth faster (Q6_K, 4 tokens)
#define PAIRS_SIDE(n) 1 // products are added in a cycle, so one chain of them is enough
#define NAME          HT_AVX2_REPACKED

#include "backend/cpu/linear/x86/repacked_codes.h"
