// SPDX-License-Identifier: MIT
// The vector kernels of the cpu backend beside its linear ones: norms, activations, rotation, KV
// pages and attention, as one table of functions a CPU level. vec_scalar.c is their specification:
// every level gives the same bits (numeric law: backend/num.h). Kernels allocate nothing, keep no
// state, need no alignment but that of their element, and write nothing outside their outputs.
#ifndef HT_CPU_VEC_H
#define HT_CPU_VEC_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/cpu/features.h"
#include "backend/num.h"

// Attention folds tiles of HT_TILE positions, which begin at multiples of it; K is interleaved by
// HT_LANES positions inside a page:
//
//     one layer's page = [kv head] of { K: [HT_PAGE_TOKENS / 16 groups][d][16 positions]
//                                       V: [HT_PAGE_TOKENS][d] }        f16, bf16 or f32 elements
//
// so that 16 scores come from vertical multiply-adds with a broadcast element of q. Q8_0 keeps int8
// codes in these places, and behind the codes of each group, and of V, their f16 scales:
//
//     K: [HT_PAGE_TOKENS / 16 groups] of { codes [d][16 positions], scales [d / 32][16 positions] }
//     V: codes [HT_PAGE_TOKENS][d], scales [d / 32][HT_PAGE_TOKENS]
//
// I16 keeps int16 codes in pairs, of elements in K and of positions in V, since products of 16 bits
// are summed two by two, and f32 steps behind them:
//
//     K: [HT_PAGE_TOKENS / 16 groups] of { codes [d / 2][16 positions][2], steps [16 positions] }
//     V: codes [HT_PAGE_TOKENS / 2][d][2], steps [HT_PAGE_TOKENS]
#define HT_TILE        64
#define HT_TILE_GROUPS (HT_TILE / HT_LANES)
#define HT_TILE_PAGES  (HT_TILE / HT_PAGE_TOKENS)
#define HT_PAGE_GROUPS (HT_PAGE_TOKENS / HT_LANES)
// Tiles are folded in segments of HT_SEGMENT positions (at multiples of it), segments in order.
#define HT_SEGMENT       512
#define HT_ATTN_MAX_ROWS 32 // query rows of a task
#define HT_KV_BLOCK      32 // elements of a head that share a scale
#define HT_I16_CHUNK     32 // elements of a query row in one piece
// Scores as powers of 2 have steps of 256 from here on, so that one may lie 2^128 above the largest
// of its row; and none of it means anything: NaN, which sampling reports.
#define HT_SCORE_LIMIT 0x1p31f

struct ht_vec_kernels {
    // y = (x * r) * w, r = ht_norm_factor(sum_sq16(x), n, eps). y may be x.
    void (*rms_norm)(const float *x, const float *w, uint32_t n, float eps, float *y);
    // d = x - sum16(x) / n; y = fma(d * r, w, b), or (d * r) * w without b;
    // r = ht_norm_factor(sum_sq16(d), n, eps). y may be x.
    void (*layer_norm)(const float *x, const float *w, const float *b, uint32_t n, float eps,
                       float *y);
    void (*act)(enum ht_act kind, const float *x, uint32_t n, float *y); // y may be x
    // y = act(gate) * up; y may be gate or up.
    void (*act_mul)(enum ht_act kind, const float *gate, const float *up, uint32_t n, float *y);
    void (*add)(const float *a, const float *b, uint32_t n, float *y); // y may be a or b
    void (*scale)(const float *x, float s, uint32_t n, float *y);      // y may be x
    void (*axpy)(float a, const float *x, uint32_t n, float *y);       // y = fma(a, x, y)
    void (*exp_sub)(const float *x, float m, uint32_t n, float *y);    // y = exp(x - m); y may be x

    // Rotation of one head's first n_rot elements, the law for both pairings:
    //   y_a = fma(x_a, c, x_b * -s), y_b = fma(x_b, c, x_a * s).
    // halves: pairs (i, i + n_rot / 2), c[n_rot / 2], s[n_rot / 2].
    // adjacent: pairs (2i, 2i + 1), c[n_rot] = c0 c0 c1 c1 ..., s[n_rot] = -s0 s0 -s1 s1 ...
    // y may be x; elements past n_rot are not touched.
    void (*rope_halves)(const float *x, const float *c, const float *s, uint32_t n_rot, float *y);
    void (*rope_adjacent)(const float *x, const float *c, const float *s, uint32_t n_rot, float *y);

    // By enum hearth_kv_type. Store one position's head: K into lane `slot` of a group, V as row
    // `slot` of a page's V. The numbers are those of the weight format of that name.
    void (*k_store[HT_N_KV_TYPES])(const float *k, uint32_t d, uint32_t slot, void *group);
    void (*v_store[HT_N_KV_TYPES])(const float *v, uint32_t d, uint32_t slot, void *page);
    // All positions of a group, x [HT_LANES][d], `slot` being the first of V's: what k_store and
    // v_store make of them one by one.
    void (*k_group[HT_N_KV_TYPES])(const float *k, uint32_t d, void *group);
    void (*v_group[HT_N_KV_TYPES])(const float *v, uint32_t d, uint32_t slot, void *page);
    // NULL for types that keep no rows. k_row is k_store for who has a group to itself and fills it
    // in order: from slot 0 on the group lies in rows, [16 positions][d] for its codes, the sign of
    // its first step set, so that a position touches lines of its own; the last slot turns it. A
    // group that lies otherwise goes on as it is. k_turn: the group as attn_qk reads it, either
    // `group` itself or, where it lies in rows, `to`, with its first n >= 1 positions; the others
    // have anything.
    void (*k_row[HT_N_KV_TYPES])(const float *k, uint32_t d, uint32_t slot, void *group);
    const void *(*k_turn[HT_N_KV_TYPES])(const void *group, uint32_t d, uint32_t n, void *to);

    // Puts query row r of n_rows into the memory that attn_qk reads, n_rows * ht_attn_q_floats(d)
    // floats: [d / 16, rounded up][n_rows][16] elements; for i16 codes, [d / 32, rounded up]
    // [n_rows][32], and steps [n_rows] behind them.
    void (*q_load[HT_N_KV_TYPES])(const float *q, uint32_t d, uint32_t n_rows, uint32_t r,
                                  void *to);

    // Query rows that a task takes, and one call of attn_qk, 1..HT_ATTN_MAX_ROWS. The three kernels
    // behind that one have a row a lane, so they take at most HT_LANES of them a call.
    uint32_t attn_rows;
    // s[r * HT_TILE + 16 g + j] = sum over e rising of fma(q[r][e], k[g][e][j], .), from 0, for g
    // in [g_begin, g_end); for q8_0 over the codes of each block, the blocks' sums in order by
    // s = fma(sum, scale, s), from 0; for i16 (sum of codes * step of k) * step of q. q: as q_load
    // left it; k: pointers to HT_TILE_GROUPS groups (those outside the range are not looked at).
    // The same places behind `next` are fetched meanwhile; none where that is NULL.
    void (*attn_qk[HT_N_KV_TYPES])(const void *q, uint32_t n_rows, uint32_t d, const void *const *k,
                                   const void *const *next, uint32_t g_begin, uint32_t g_end,
                                   float *s);
    // Each row r, s being s[r * HT_TILE ...], m and l its largest score so far, as a power of 2,
    // and its lanes' sums of weights (-inf and 0 at the beginning of a segment): t = s, or, if
    // cap, tanh(s * scale / cap), over the tile's positions [lo[r], hi[r]), not empty;
    // m' = max(m, (max t) * by), by = (cap or scale) * log2(e); p = 2^(t * by - m') in the place
    // of s, p of the rest of the tile is 0; where |m'| reaches HT_SCORE_LIMIT, p is 0 (of an
    // infinite score NaN) and m' NaN. c[r] = 2^(m - m');
    // l[j] = fma(l[j], c[r], p[j] + p[16 + j] + ...).
    void (*attn_softmax)(float *s, uint32_t n_rows, const uint32_t *lo, const uint32_t *hi,
                         float scale, float cap, float *m, float (*l)[HT_LANES], float *c);
    // Each of n_kv KV heads and n_rows query rows of it, n_kv * n_rows <= HT_LANES rows r in all:
    // acc[r][e] = acc[r][e] * c[r]; then acc[r][e] = fma(p[r * HT_TILE + j], v[j][e], acc[r][e])
    // for j rising in [j_begin, j_end); for q8_0 with the code for v[j][e] and p * scale for p; for
    // i16 in one sum of codes, over whole groups of 16, so what lies outside has to have a p of 0.
    // acc: [n_kv][n_rows][d]; v: [n_kv] times pointers to the HT_TILE_PAGES pages' V (those outside
    // the range are not looked at); next: as above, or [n_kv] times a page's V for each of
    // HT_TILE_GROUPS groups of 16 positions.
    void (*attn_pv[HT_N_KV_TYPES])(float *acc, const float *p, const float *c, uint32_t n_kv,
                                   uint32_t n_rows, uint32_t d, const void *const *v,
                                   const void *const *next, uint32_t j_begin, uint32_t j_end);
    // Joins a segment's m, l and acc [n_rows][d] with those of the segments before it: all_m and
    // all_l [n_rows] and sum [n_rows][d]. A row whose lanes of l are 0 saw nothing of it; where
    // all_l[r] is 0, there were none before.
    void (*attn_join)(const float *m, const float (*l)[HT_LANES], const float *acc, uint32_t n_rows,
                      uint32_t d, float *all_m, float *all_l, float *sum);
};

// A list of places to fetch from its nth on; NULL: there is none.
static inline const void *const *ht_next_from(const void *const *next, uint32_t n) {
    return next ? next + n : next;
}

// The kernels of a KV type of numbers, over functions k_append, v_append, qk and pv that take the
// type first, and q_load, and their places in the table. Every level has one line of each for every
// such type.
#define HT_KV_KERNELS(name, TYPE)                                                                  \
    static void append_k_##name(const float *k, uint32_t d, uint32_t slot, void *group) {          \
        k_append(TYPE, k, d, slot, group);                                                         \
    }                                                                                              \
    static void group_k_##name(const float *k, uint32_t d, void *group) {                          \
        for (uint32_t i = 0; i < HT_LANES; i++, k += d) append_k_##name(k, d, i, group);           \
    }                                                                                              \
    static void append_v_##name(const float *v, uint32_t d, uint32_t slot, void *page) {           \
        v_append(TYPE, v, d, slot, page);                                                          \
    }                                                                                              \
    static void group_v_##name(const float *v, uint32_t d, uint32_t slot, void *page) {            \
        for (uint32_t i = 0; i < HT_LANES; i++, v += d) append_v_##name(v, d, slot + i, page);     \
    }                                                                                              \
    static void qk_##name(const void *q, uint32_t n_rows, uint32_t d, const void *const *k,        \
                          const void *const *next, uint32_t g_begin, uint32_t g_end, float *s) {   \
        qk(TYPE, q, n_rows, d, k, next, g_begin, g_end, s);                                        \
    }                                                                                              \
    static void pv_##name(float *acc, const float *p, const float *c, uint32_t n_kv,               \
                          uint32_t n_rows, uint32_t d, const void *const *v,                       \
                          const void *const *next, uint32_t j_begin, uint32_t j_end) {             \
        for (; n_kv > 0; n_kv--, v += HT_TILE_PAGES) {                                             \
            pv(TYPE, acc, p, c, n_rows, d, v, next, j_begin, j_end);                               \
            acc += (size_t)n_rows * d, p += n_rows * HT_TILE, c += n_rows;                         \
            next = ht_next_from(next, HT_TILE_GROUPS);                                             \
        }                                                                                          \
    }
#define HT_KV_ENTRIES(k, name, TYPE)                                                               \
    (k)->q_load[TYPE] = q_load, (k)->k_store[TYPE] = append_k_##name,                              \
    (k)->k_group[TYPE] = group_k_##name, (k)->v_store[TYPE] = append_v_##name,                     \
    (k)->v_group[TYPE] = group_v_##name, (k)->attn_qk[TYPE] = qk_##name,                           \
    (k)->attn_pv[TYPE] = pv_##name

// Bytes of an element of a page, or of its code.
static inline uint32_t ht_kv_code_bytes(enum hearth_kv_type type) {
    static const uint8_t n[HT_N_KV_TYPES] = {[HEARTH_KV_F16] = 2,
                                             [HEARTH_KV_F32] = 4,
                                             [HEARTH_KV_BF16] = 2,
                                             [HEARTH_KV_Q8_0] = 1,
                                             [HEARTH_KV_I16] = 2};
    return n[type];
}

// Query rows of a task that one call of a kernel with a row a lane takes, at most.
static inline uint32_t ht_attn_lane_rows(const struct ht_vec_kernels *k) {
    return k->attn_rows < HT_LANES ? k->attn_rows : HT_LANES;
}

// Room for a query row, in floats.
static inline size_t ht_attn_q_floats(uint32_t d) {
    return (d + HT_LANES - 1u) / HT_LANES * HT_LANES + HT_LANES;
}

// The scales of block b of a q8_0 group, and of a page's V.
static inline const uint16_t *ht_kv_k_scales(const void *group, uint32_t d, uint32_t b) {
    return (const uint16_t *)group + HT_LANES * (size_t)d / 2 + (size_t)b * HT_LANES;
}
static inline const uint16_t *ht_kv_v_scales(const void *page, uint32_t d, uint32_t b) {
    return (const uint16_t *)page + HT_PAGE_TOKENS * (size_t)d / 2 + (size_t)b * HT_PAGE_TOKENS;
}

// The steps of n_rows query rows, of an i16 group, and of a page's V.
static inline float *ht_i16_q_steps(const void *q, uint32_t d, uint32_t n_rows) {
    return (float *)q + (size_t)(d + HT_I16_CHUNK - 1) / HT_I16_CHUNK * HT_I16_CHUNK / 2 * n_rows;
}
static inline float *ht_i16_k_steps(const void *group, uint32_t d) {
    return (float *)group + HT_LANES * (size_t)d / 2;
}
static inline bool ht_i16_in_rows(const void *group, uint32_t d) {
    return signbit(*ht_i16_k_steps(group, d));
}
static inline float *ht_i16_v_steps(const void *page, uint32_t d) {
    return (float *)page + HT_PAGE_TOKENS * (size_t)d / 2;
}

// Fills the table of a level: scalar first, then what each level does better.
void ht_vec_kernels_init(struct ht_vec_kernels *k, enum ht_cpu_level level);

void ht_vec_init_scalar(struct ht_vec_kernels *k);
void ht_vec_init_avx2(struct ht_vec_kernels *k);
void ht_vec_init_avx512(struct ht_vec_kernels *k);
void ht_vec_init_avx512vnni(struct ht_vec_kernels *k);
void ht_vec_init_neon(struct ht_vec_kernels *k);

static inline float ht_act_value(enum ht_act kind, float x) {
    switch (kind) {
    case HT_ACT_SILU: return ht_siluf(x);
    case HT_ACT_GELU_TANH: return ht_gelu_tanhf(x);
    case HT_ACT_GELU_ERF: return ht_gelu_erff(x);
    case HT_ACT_RELU2: break;
    }
    float y = 0.0f > x ? 0.0f : x; // NaN stays
    return y * y;
}

// What a norm multiplies its row by, from the sum of squares. One that is beyond f32 says nothing
// of the row, which must not become zeros for it.
static inline float ht_norm_factor(float sum_sq, uint32_t n, float eps) {
    return sum_sq < INFINITY ? 1.0f / sqrtf(sum_sq / (float)n + eps) : NAN;
}

#endif
