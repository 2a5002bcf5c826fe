// SPDX-License-Identifier: MIT
// Rotation frequencies: every scaling variant becomes one table of radians a position, in double,
// and one factor on cos and sin, of queries one that may grow with the position, so that backends
// know a single formula.
//   plain     f_i = base^(-2i / n_rot)
//   factors   f_i / factor_i        (a tensor of the file: Llama 3's scaling, made at conversion)
//   linear    f_i / s
//   YaRN      f_i (m_i + (1 - m_i) / s); m_i falls from 1 to 0 between the pairs that turn
//             beta_fast and beta_slow times in the original context; cos and sin times
//             (1 + 0.1 ln s) / (1 + 0.1 k ln s), k being yarn_log_multiplier (Peng et al. 2023,
//             arXiv 2309.00071). yarn_attn_factor above 1 takes the place of that, below 1 it
//             multiplies that, and 1 is what llama.cpp writes for "not set". (The keys are
//             mscale_all_dim, attention_factor and attn_factor of the models' own configurations;
//             converters write the last two, which mean these two things, to one key.)
// One thread builds one model.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "model/model_internal.h"

struct rope_params {
    uint32_t n_rot, n_ctx_orig;
    float base, factor, attn_factor, beta_fast, beta_slow;
    float yarn_attn_factor, log_multiplier; // 0: not set; a yarn_attn_factor of 1 means that, too
    bool yarn;
};

static bool str_is(const struct ht_str *s, const char *text) {
    return s->len == strlen(text) && memcmp(s->data, text, s->len) == 0;
}

// A key of 0 (not set) to 64.
static void read_yarn_key(struct ht_build *b, const char *suffix, float *out) {
    ht_key_f32(b, suffix, false, out);
    if (!b->status && !(*out >= 0 && *out <= 64))
        ht_build_fail(b, HEARTH_E_FORMAT, "metadata key %s.%s is %g, expected 0 (not set) to 64",
                      b->arch, suffix, (double)*out);
}

// Whether a type means that nothing is scaled: by name, or as converters write a configuration that
// has no scaling.
static bool scales_nothing(const struct ht_str *type, float factor) {
    if (str_is(type, "none")) return true;
    return (str_is(type, "") || str_is(type, "default")) && (factor == 0 || factor == 1);
}

static void read_scaling(struct ht_build *b, struct rope_params *p) {
    struct ht_str type = {"linear", 6};
    ht_key_str(b, "rope.scaling.type", &type);
    ht_key_f32(b, "rope.scale_linear", false, &p->factor); // the old key
    ht_key_f32(b, "rope.scaling.factor", false, &p->factor);
    ht_key_f32(b, "rope.scaling.attn_factor", false, &p->attn_factor);
    ht_key_u32(b, "rope.scaling.original_context_length", false, &p->n_ctx_orig);
    if (b->status) return;
    if (p->attn_factor == 0) p->attn_factor = 1;
    if (p->n_ctx_orig == 0) p->n_ctx_orig = b->hp.n_ctx_train;
    bool none = scales_nothing(&type, p->factor);
    p->yarn = str_is(&type, "yarn");
    char quoted[HT_QUOTE_BYTES];
    if (!none && !p->yarn && !str_is(&type, "linear"))
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s.rope.scaling.type is %s, expected none, linear or yarn", b->arch,
                      ht_quote(quoted, type.data, type.len));
    if (none || p->factor == 0) {
        p->factor = 1;
        p->yarn = false;
    }
    if (!(p->factor >= 0.0625f && p->factor <= 65536))
        ht_build_fail(b, HEARTH_E_FORMAT, "%s.rope.scaling.factor is %g, expected 1/16 to 65536",
                      b->arch, (double)p->factor);
    if (!(p->attn_factor > 0 && p->attn_factor <= 1024))
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%s.rope.scaling.attn_factor is %g, expected above 0, up to 1024", b->arch,
                      (double)p->attn_factor);
}

// The names that Ollama's converter wrote for Ministral 3 at first, of the model's configuration,
// where mscale_all_dim counts beside an mscale only.
static void read_ollama_yarn(struct ht_build *b, struct rope_params *p) {
    float mscale = 0, all_dim = 0;
    ht_key_f32(b, "rope.scaling.mscale", false, &mscale);
    if (!b->status && mscale != 0 && mscale != 1)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "metadata key %s.rope.scaling.mscale is %.9g, only 0 (not set) and 1 are "
                      "supported",
                      b->arch, (double)mscale);
    read_yarn_key(b, "rope.scaling.mscale_all_dim", &all_dim);
    if (mscale == 1) p->log_multiplier = all_dim;
    ht_key_f32(b, "rope.scaling.beta_fast", false, &p->beta_fast);
    ht_key_f32(b, "rope.scaling.beta_slow", false, &p->beta_slow);
}

static void read_yarn(struct ht_build *b, struct rope_params *p) {
    if (!p->yarn) return;
    float ext_factor = -1; // how much of the ramp: all of it, in every known file
    ht_key_f32(b, "rope.scaling.yarn_ext_factor", false, &ext_factor);
    if (!b->status && ext_factor != -1 && ext_factor != 1)
        ht_build_fail(
            b, HEARTH_E_UNSUPPORTED,
            "metadata key %s.rope.scaling.yarn_ext_factor is %.9g, only -1 (not set) and 1 "
            "are supported",
            b->arch, (double)ext_factor);
    read_ollama_yarn(b, p);
    read_yarn_key(b, "rope.scaling.yarn_attn_factor", &p->yarn_attn_factor);
    read_yarn_key(b, "rope.scaling.yarn_log_multiplier", &p->log_multiplier);
    ht_key_f32(b, "rope.scaling.yarn_beta_fast", false, &p->beta_fast);
    ht_key_f32(b, "rope.scaling.yarn_beta_slow", false, &p->beta_slow);
    if (p->beta_fast == 0) p->beta_fast = 32;
    if (p->beta_slow == 0) p->beta_slow = 1;
    if (!b->status && !(p->beta_slow > 0 && p->beta_fast >= p->beta_slow && p->beta_fast < 1e6f))
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%s.rope.scaling.yarn_beta_fast (or beta_fast) is %g and yarn_beta_slow (or "
                      "beta_slow) %g, expected above 0, the first at least as large, below 1e6",
                      b->arch, (double)p->beta_fast, (double)p->beta_slow);
}

static void read_params(struct ht_build *b, struct rope_params *p) {
    *p = (struct rope_params){.attn_factor = 1};
    ht_key_u32(b, "rope.dimension_count", false, &p->n_rot);
    ht_key_f32(b, "rope.freq_base", false, &p->base);
    if (p->n_rot == 0) p->n_rot = b->hp.head_dim;
    if (p->base == 0) p->base = 10000;
    // Where the two differ, a converter took another size for that of a head; nobody trained this.
    if (!b->status && (p->n_rot % 2 != 0 || p->n_rot != b->hp.head_dim))
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%s rotates %" PRIu32
                      " elements of a head (rope.dimension_count, or the head size), expected all "
                      "of a head, an even number; it has %" PRIu32,
                      b->arch, p->n_rot, b->hp.head_dim);
    if (!b->status && !(p->base > 1 && isfinite(p->base)))
        ht_build_fail(b, HEARTH_E_FORMAT, "metadata key %s.rope.freq_base is %g, expected above 1",
                      b->arch, (double)p->base);
    read_scaling(b, p);
    read_yarn(b, p);
}

// The pair (a real number) that turns `turns` times in the original context.
static double yarn_pair(const struct rope_params *p, double turns) {
    return p->n_rot * log(p->n_ctx_orig / (turns * 2 * M_PI)) / (2 * log((double)p->base));
}

// m_i: 1 keeps the pair's frequency, 0 divides it by the factor.
static double yarn_keep(const struct rope_params *p, uint32_t i) {
    double low = fmax(0, floor(yarn_pair(p, (double)p->beta_fast)));
    double high = fmin(p->n_rot - 1, ceil(yarn_pair(p, (double)p->beta_slow)));
    double ramp = (i - low) / fmax(0.001, high - low);
    return 1 - fmin(1, fmax(0, ramp));
}

// The file's factors as floats, or NULL.
static const float *bind_factors(struct ht_build *b, const char *name, uint32_t n) {
    if (!name || !ht_has_weight(b, name)) return NULL;
    uint32_t w = ht_bind_vector(b, name, n);
    if (b->status) return NULL;
    const float *f = (const float *)(const void *)b->weights[w].data;
    for (uint32_t i = 0; i < n; i++)
        if (!(f[i] >= 0.0625f)) {
            ht_build_fail(b, HEARTH_E_FORMAT,
                          "tensor %s has %g at %" PRIu32 ", expected factors of 1/16 or more", name,
                          (double)f[i], i);
            return NULL;
        }
    return f;
}

static bool add_rope(struct ht_build *b, const struct ht_rope *r) {
    struct ht_rope *p = ht_realloc(b->ropes, b->n_ropes + 1, sizeof *p);
    if (!p) {
        if (!b->status) b->status = ht_fail_nomem(b->err, sizeof *p, "the plan");
        return false;
    }
    b->ropes = p;
    b->ropes[b->n_ropes++] = *r;
    b->cap_ropes = b->n_ropes;
    return true;
}

uint32_t ht_build_rope(struct ht_build *b, const char *factors) {
    struct rope_params p;
    read_params(b, &p);
    const float *f = b->status ? NULL : bind_factors(b, factors, p.n_rot / 2);
    if (b->status) return HT_NONE;
    double *freq = ht_arena_array(b->arena, p.n_rot / 2, sizeof *freq, sizeof *freq);
    if (!freq) {
        b->status = ht_fail_nomem(b->err, p.n_rot / 2 * sizeof *freq, "rope frequencies");
        return HT_NONE;
    }
    double s = (double)p.factor;
    for (uint32_t i = 0; i < p.n_rot / 2; i++) {
        double plain = pow((double)p.base, -2.0 * i / p.n_rot) / (f ? (double)f[i] : 1);
        double keep = p.yarn ? yarn_keep(&p, i) : 0;
        freq[i] = plain * keep + plain / s * (1 - keep);
        if (freq[i] < HT_ROPE_FREQ_MAX) continue;
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%s turns pair %" PRIu32
                      " of a head by %g radians a position (rope_freqs.weight and "
                      "rope.scaling.factor), expected less than %d",
                      b->arch, i, freq[i], HT_ROPE_FREQ_MAX);
        return HT_NONE;
    }
    double mscale = 1;
    if (p.yarn && s > 1)
        mscale = (1 + 0.1 * log(s)) / (1 + 0.1 * (double)p.log_multiplier * log(s));
    if (p.yarn && p.yarn_attn_factor > 1) mscale = (double)p.yarn_attn_factor;
    if (p.yarn && p.yarn_attn_factor > 0 && p.yarn_attn_factor < 1)
        mscale *= (double)p.yarn_attn_factor;
    struct ht_rope r = {
        .n_rot = p.n_rot, .inv_freq = freq, .mscale = (float)(mscale * (double)p.attn_factor)};
    return add_rope(b, &r) ? b->n_ropes - 1 : HT_NONE;
}

uint32_t ht_build_far_rope(struct ht_build *b, uint32_t rope) {
    float beta = 0, factor = 0;
    uint32_t period = 0;
    ht_key_f32(b, "rope.scaling_beta", false, &beta); // as in read_ollama_yarn
    bool first_ones = beta != 0; // had the scale and the context, and not the scaling
    ht_key_f32(b, "rope.scaling.factor", false, &factor);
    ht_key_f32(b, "attention.temperature_scale", false, &beta);
    ht_key_u32(b, "rope.scaling.original_context_length", false, &period);
    if (b->status || beta == 0) return rope;
    if (first_ones && factor == 0 && period > 0 && period < b->hp.n_ctx_train)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s.rope.scaling.factor is missing, though the context grew from %" PRIu32
                      " to %" PRIu32 ": the file is from before its converter knew the key; get a "
                      "newer one of this model",
                      b->arch, period, b->hp.n_ctx_train);
    struct ht_rope r = b->ropes[rope];
    r.far_beta = beta;
    r.far_period = period > 0 ? period : b->hp.n_ctx_train;
    if (!(beta > 0 && beta <= 64))
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "metadata key %s.attention.temperature_scale (or rope.scaling_beta) is %g, "
                      "expected 0 to 64",
                      b->arch, (double)beta);
    return add_rope(b, &r) ? b->n_ropes - 1 : HT_NONE;
}
