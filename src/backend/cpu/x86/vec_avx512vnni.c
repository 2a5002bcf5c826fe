// SPDX-License-Identifier: MIT
// Attention's products over pages of 16-bit numbers with VNNI (vpdpwssd); the other vector kernels
// of that level are those of AVX-512. Compiled with its flags; called only where features.c found
// it. No state; any thread.
#define V_ACCS 24
#define V_PRODUCTS_ONLY

#include "backend/cpu/x86/vec_avx512.h"

#include "backend/cpu/vec_i16.h"

void ht_vec_init_avx512vnni(struct ht_vec_kernels *k) {
    HT_KV_PRODUCTS_I16(k);
}
