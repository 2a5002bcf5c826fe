// SPDX-License-Identifier: MIT
// When threads must meet, and where tensors lie. Runs once, at prepare, on the caller's thread.
//
// A step needs a barrier in front of it if, since the last barrier, another thread may have touched
// what it touches (one of the two writing), be it the same tensor divided in another way or another
// tensor at the same place. Lifetimes are stretched to the end of their phase (the steps between
// two barriers) before tensors are placed, so that sharing memory never costs a barrier.
//
// Nor need all rows be made: in the last layer nobody looks at a token whose logits are not wanted,
// but for its key and value, so a prompt's queries and attention are left out there.
#include "backend/cpu/exec.h"
#include "base/checked.h"
#include "base/mem.h"

static void touch(struct ht_cpu_access *a, uint32_t *n, uint32_t tensor, bool write,
                  enum ht_cpu_part part) {
    if (tensor == HT_NONE) return;
    a[(*n)++] = (struct ht_cpu_access){.tensor = tensor, .write = write, .part = part};
}

static uint32_t linear_accesses(const struct ht_compiled *c, const struct ht_cpu_step *s, bool few,
                                struct ht_cpu_access *a) {
    uint32_t n = 0;
    enum ht_cpu_part part = ht_cpu_linear_part(s);
    for (uint32_t i = 0; i < s->n_linear; i++) {
        bool own = few && c->tensors[s->in[i]].private_copies;
        touch(a, &n, s->in[i], false, own ? HT_PART_PRIVATE : HT_PART_ANY);
        bool stored = s->heads[i].store != HT_CPU_STORE_NONE;
        if (s->prep == HT_NONE && !stored) touch(a, &n, s->out[i], true, part);
        if (stored) touch(a, &n, c->n_tensors + s->layer, true, part);
        touch(a, &n, s->heads[i].table, false, HT_PART_ANY);
    }
    touch(a, &n, s->prep, true, part);
    touch(a, &n, s->residual, false, part);
    return n;
}

static uint32_t moe_accesses(const struct ht_cpu_step *s, bool few, struct ht_cpu_access *a) {
    enum ht_cpu_part own = few ? HT_PART_PRIVATE : HT_PART_ANY;
    uint32_t n = 0;
    switch (s->op) {
    case HT_CPU_MOE_GROUP:
    case HT_CPU_MOE_GATHER: // one token needs neither
        for (int i = 0; i < 2 && !few; i++) touch(a, &n, s->in[i], false, HT_PART_ANY);
        if (!few) touch(a, &n, s->out[0], true, HT_PART_ANY);
        break;
    case HT_CPU_MOE_UP:
        for (int i = 0; i < 2; i++) { // gate, up
            touch(a, &n, s->in[i], false, own);
            if (!few) touch(a, &n, s->in[2 + i], false, HT_PART_ANY); // gathered
            if (few) touch(a, &n, s->out[i], true, HT_PART_ANY);
        }
        touch(a, &n, s->in[4], false, own);                   // ids
        if (!few) touch(a, &n, s->in[5], false, HT_PART_ANY); // groups
        if (!few) touch(a, &n, s->prep, true, HT_PART_ANY);
        break;
    case HT_CPU_MOE_PREP: // of one token alone
        if (few) touch(a, &n, s->in[1], false, HT_PART_ANY);
        if (few) touch(a, &n, s->out[0], true, own);
        break;
    case HT_CPU_MOE_DOWN:
        touch(a, &n, s->in[0], false, own); // hidden
        touch(a, &n, s->in[1], false, own); // ids
        if (!few) touch(a, &n, s->in[2], false, HT_PART_ANY);
        touch(a, &n, s->out[0], true, few ? HT_PART_COLS : HT_PART_ANY);
        break;
    default: // MOE_SUM
        touch(a, &n, s->in[0], false, few ? HT_PART_COLS : HT_PART_ANY);
        touch(a, &n, s->in[1], false, few ? HT_PART_PRIVATE : HT_PART_TOKENS); // weights
        if (!few) touch(a, &n, s->in[2], false, HT_PART_ANY);
        touch(a, &n, s->out[0], true, few ? HT_PART_COLS : HT_PART_TOKENS);
        break;
    }
    return n;
}

uint32_t ht_cpu_accesses(const struct ht_compiled *c, const struct ht_cpu_step *s,
                         enum ht_cpu_mode mode, struct ht_cpu_access *a) {
    bool few = mode == HT_CPU_FEW;
    enum ht_cpu_part each = few ? HT_PART_COLS : HT_PART_TOKENS;
    enum ht_cpu_part heads = c->own_heads ? HT_PART_KV : few ? HT_PART_HEADS : HT_PART_TOKENS;
    uint32_t n = 0, pages = c->n_tensors + s->layer;
    switch (s->op) {
    case HT_CPU_ROPE_TABLE: touch(a, &n, s->out[0], true, HT_PART_TOKENS); break;
    case HT_CPU_EMBED: touch(a, &n, s->out[0], true, few ? HT_PART_ANY : HT_PART_TOKENS); break;
    case HT_CPU_NORM:
        touch(a, &n, s->in[0], false, HT_PART_TOKENS);
        touch(a, &n, s->out[0], true, HT_PART_TOKENS);
        break;
    case HT_CPU_PREP:
        touch(a, &n, s->in[0], false, few ? HT_PART_ANY : HT_PART_TOKENS);
        for (int i = 0; i < HT_N_ACT_KINDS; i++)
            touch(a, &n, s->out[i], true, few ? HT_PART_PRIVATE : HT_PART_TOKENS);
        break;
    case HT_CPU_SELECT:
        touch(a, &n, s->in[0], false, few ? HT_PART_COLS : HT_PART_ANY);
        touch(a, &n, s->out[0], true, each);
        break;
    case HT_CPU_ADD_POS:
    case HT_CPU_ACT:
    case HT_CPU_ACT_MUL:
    case HT_CPU_ADD:
        for (int i = 0; i < 2; i++) touch(a, &n, s->in[i], false, each);
        touch(a, &n, s->out[0], true, each);
        break;
    case HT_CPU_LINEAR: return linear_accesses(c, s, few, a);
    case HT_CPU_HEADS:
        touch(a, &n, s->in[0], false, heads);
        touch(a, &n, s->heads[0].table, false, HT_PART_ANY);
        touch(a, &n, s->out[0], true, heads);
        break;
    case HT_CPU_KV_APPEND:
        touch(a, &n, s->in[0], false, heads);
        touch(a, &n, s->in[1], false, heads);
        touch(a, &n, pages, true, c->own_heads ? HT_PART_KV : HT_PART_ANY);
        break;
    case HT_CPU_ATTENTION:
        touch(a, &n, s->in[0], false, c->own_heads ? HT_PART_KV : HT_PART_ANY);
        touch(a, &n, pages, false, c->own_heads ? HT_PART_KV : HT_PART_ANY);
        if (few && !c->own_heads) {
            touch(a, &n, s->out[1], true, HT_PART_ANY);
            break;
        }
        // Threads that have done their own take what others have ready (attention_own.c).
        touch(a, &n, s->out[0], true, few ? HT_PART_KV : HT_PART_ANY);
        touch(a, &n, s->prep, true, few ? HT_PART_KV : HT_PART_ANY);
        break;
    case HT_CPU_ATTN_JOIN:
        if (!few) break;
        touch(a, &n, s->in[0], false, HT_PART_ANY);
        touch(a, &n, s->out[0], true, HT_PART_HEADS);
        touch(a, &n, s->prep, true, HT_PART_HEADS);
        break;
    case HT_CPU_MOE_ROUTE:
        touch(a, &n, s->in[0], false, few ? HT_PART_ANY : HT_PART_TOKENS);
        for (int i = 0; i < 2; i++)
            touch(a, &n, s->out[i], true, few ? HT_PART_PRIVATE : HT_PART_TOKENS);
        break;
    default: return moe_accesses(s, few, a);
    }
    return n;
}

static bool same_place(const struct ht_compiled *c, uint32_t a, uint32_t b) {
    if (a >= c->n_tensors || b >= c->n_tensors) return false; // pages
    const struct ht_cpu_tensor *x = &c->tensors[a], *y = &c->tensors[b];
    return x->offset < y->offset + y->n_bytes && y->offset < x->offset + x->n_bytes;
}

static bool conflict(const struct ht_compiled *c, const struct ht_cpu_access *x,
                     const struct ht_cpu_access *y, bool placed) {
    if (!x->write && !y->write) return false;
    if (x->tensor == y->tensor) return x->part != y->part || x->part == HT_PART_ANY;
    return placed && same_place(c, x->tensor, y->tensor);
}

// Whether step i conflicts with any of the steps [begin, i).
static bool must_meet(const struct ht_compiled *c, enum ht_cpu_mode mode, uint32_t begin,
                      uint32_t i, bool placed) {
    struct ht_cpu_access mine[HT_CPU_MAX_ACCESSES], theirs[HT_CPU_MAX_ACCESSES];
    uint32_t n = ht_cpu_accesses(c, &c->steps[i], mode, mine);
    for (uint32_t j = begin; j < i; j++) {
        uint32_t m = ht_cpu_accesses(c, &c->steps[j], mode, theirs);
        for (uint32_t x = 0; x < n; x++)
            for (uint32_t y = 0; y < m; y++)
                if (conflict(c, &mine[x], &theirs[y], placed)) return true;
    }
    return false;
}

static void find_barriers(struct ht_compiled *c, bool placed) {
    for (int mode = 0; mode < HT_CPU_N_MODES; mode++) {
        uint32_t begin = 0;
        for (uint32_t i = 0; i < c->n_steps; i++) {
            bool meet = must_meet(c, (enum ht_cpu_mode)mode, begin, i, placed);
            c->steps[i].barrier[mode] = meet;
            if (meet) begin = i;
        }
    }
}

// The linear step whose weights are read next. Experts read so much that what was asked for before
// them would be gone.
static void find_ahead(struct ht_compiled *c) {
    uint32_t next = HT_NONE;
    for (uint32_t i = c->n_steps; i-- > 0;) {
        if (c->steps[i].op == HT_CPU_LINEAR) next = i;
        if (c->steps[i].op == HT_CPU_MOE_UP) next = HT_NONE;
        c->steps[i].ahead = next;
    }
}

struct span {
    uint32_t begin, end; // steps; end is behind the last
};

// The first step behind i that some barrier of the mode separates from i.
static uint32_t phase_end(const struct ht_compiled *c, enum ht_cpu_mode mode, uint32_t i) {
    uint32_t j = i + 1;
    while (j < c->n_steps && !c->steps[j].barrier[mode]) j++;
    return j;
}

static void find_spans(const struct ht_compiled *c, struct span *span) {
    for (uint32_t t = 0; t < c->n_tensors; t++) span[t] = (struct span){UINT32_MAX, 0};
    for (uint32_t i = 0; i < c->n_steps; i++) {
        uint32_t end = phase_end(c, HT_CPU_FEW, i), end2 = phase_end(c, HT_CPU_MANY, i);
        end = end2 > end ? end2 : end;
        for (int mode = 0; mode < HT_CPU_N_MODES; mode++) {
            struct ht_cpu_access a[HT_CPU_MAX_ACCESSES];
            uint32_t n = ht_cpu_accesses(c, &c->steps[i], (enum ht_cpu_mode)mode, a);
            for (uint32_t k = 0; k < n; k++) {
                if (a[k].tensor >= c->n_tensors) continue;
                struct span *s = &span[a[k].tensor];
                if (i < s->begin) s->begin = i;
                if (end > s->end) s->end = end;
            }
        }
    }
    span[c->logits].end = UINT32_MAX;
}

// The lowest offset where tensor t fits beside the tensors before it that live at the same time.
static bool place(struct ht_compiled *c, const struct span *span, uint32_t t) {
    uint64_t at = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t o = 0; o < t; o++) {
            const struct ht_cpu_tensor *x = &c->tensors[o];
            bool together = span[o].begin < span[t].end && span[t].begin < span[o].end;
            if (!together || x->offset >= at + c->tensors[t].n_bytes ||
                at >= x->offset + x->n_bytes)
                continue;
            at = x->offset + x->n_bytes;
            moved = true;
        }
    }
    c->tensors[t].offset = at;
    uint64_t end;
    if (!ht_add_u64(at, c->tensors[t].n_bytes, &end)) return false;
    if (end > c->scratch_bytes) c->scratch_bytes = end;
    return true;
}

// The tensors that a step reads get `some_rows`, or lose it.
static void mark_read(struct ht_compiled *c, const struct ht_cpu_step *s, bool some) {
    struct ht_cpu_access a[HT_CPU_MAX_ACCESSES];
    uint32_t n = ht_cpu_accesses(c, s, HT_CPU_MANY, a);
    for (uint32_t k = 0; k < n; k++) {
        if (a[k].write || a[k].tensor >= c->n_tensors) continue;
        struct ht_cpu_tensor *t = &c->tensors[a[k].tensor];
        t->some_rows = some && t->rows == HT_CPU_ROWS_TOKENS;
    }
}

// Tensors of which only the rows of outputs are read, from the last step back: a row of what a step
// over heads makes comes of the same row of what it reads.
static void find_some_rows(struct ht_compiled *c) {
    for (uint32_t i = 0; i < c->n_steps; i++) mark_read(c, &c->steps[i], true);
    for (uint32_t i = c->n_steps; i-- > 0;) {
        struct ht_cpu_step *s = &c->steps[i];
        if (s->op == HT_CPU_HEADS || s->op == HT_CPU_ATTENTION || s->op == HT_CPU_ATTN_JOIN)
            s->some_rows = s->out[0] != HT_NONE && c->tensors[s->out[0]].some_rows;
        if (!s->some_rows && s->op != HT_CPU_SELECT) mark_read(c, s, false);
    }
}

enum hearth_status ht_cpu_schedule(struct ht_compiled *c, struct hearth_error *err) {
    struct span *span = ht_calloc(c->n_tensors, sizeof *span);
    if (!span) return ht_fail_nomem(err, c->n_tensors * sizeof *span, "a plan's lifetimes");
    find_barriers(c, false);
    find_spans(c, span);
    bool fits = true;
    for (uint32_t t = 0; t < c->n_tensors && fits; t++) fits = place(c, span, t);
    ht_free(span);
    if (!fits)
        return ht_fail(err, HEARTH_E_LIMIT, "scratch for batches of %u tokens has no size",
                       c->limits.max_tokens);
    find_barriers(c, true);
    find_ahead(c);
    find_some_rows(c);
    return HEARTH_OK;
}
