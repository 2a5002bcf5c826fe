// SPDX-License-Identifier: MIT
// AMX: eight tiles of up to 16 rows x 64 bytes. Own asm, since gcc 12's intrinsics let the compiler
// believe that most of a configuration, or a tile's memory, is not read. Who uses tiles configures
// them first and releases them behind.
#ifndef HT_CPU_X86_TILE_H
#define HT_CPU_X86_TILE_H

#include <stddef.h>
#include <stdint.h>

struct tile_config {
    uint8_t palette, start_row, reserved[14]; // palette: 1
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
} __attribute__((aligned(64)));

#define TILE_CONFIGURE(c) __asm__ volatile("ldtilecfg %0" ::"m"(c))
#define TILE_RELEASE()    __asm__ volatile("tilerelease" ::)

// Rows of tile t are `step` bytes apart.
#define TILE_LOAD(t, p, step)                                                                      \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((size_t)(step)) : "memory")
#define TILE_STORE(t, p, step)                                                                     \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((size_t)(step)) : "memory")
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)

// sum += act times w. A row of act has groups of four codes or two bf16, a row of w one such group
// for each column of the sum.
#define TILE_CODES(sum, act, w)                                                                    \
    __asm__ volatile("tdpbssd %%tmm" #w ", %%tmm" #act ", %%tmm" #sum ::)
#define TILE_BF16(sum, act, w)                                                                     \
    __asm__ volatile("tdpbf16ps %%tmm" #w ", %%tmm" #act ", %%tmm" #sum ::)

#endif
