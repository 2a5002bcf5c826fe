// SPDX-License-Identifier: MIT
// Packers and streams of codes that were repacked (linear.h), for the level avx2vnni. No state; any
// thread.
#define REPACKED

#include "backend/cpu/linear/x86/avx2_repacked.h"
#include "backend/cpu/linear/x86/vnni_avx2.h"

#define PAIRS_TOKENS  4
#define PAIRS_ALIKE   1 // as in avx2_repacked.c
#define PAIRS_SIDE(n) 2 // vpdpbusd is waited for longer than four others take
#define NAME          HT_AVX2VNNI_REPACKED
#define MIN_PACKS     HT_AVX2_REPACKED

#include "backend/cpu/linear/x86/repacked_codes.h"
