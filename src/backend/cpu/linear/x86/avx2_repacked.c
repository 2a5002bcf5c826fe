// SPDX-License-Identifier: MIT
// Packers and streams of codes that were repacked (linear.h), for the level avx2. No state; any
// thread.
#define REPACKED

#include "backend/cpu/linear/x86/avx2_repacked.h"
#include "backend/cpu/linear/x86/pairs_avx2.h"

// Products are added in a cycle, so one chain of them is enough.
#define PAIRS_SIDE(n) 1
#define NAME          HT_AVX2_REPACKED

#include "backend/cpu/linear/x86/repacked_codes.h"
