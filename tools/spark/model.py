# SPDX-License-Identifier: MIT
"""The qwen3 architecture in PyTorch, written for training on a CPU.

The weights are held in f32 and multiplied in bf16: on processors with AVX512-BF16 that is two orders of magnitude
faster than f32 with a reference BLAS. The residual stream stays in f32. Layout and formulas are those of Qwen3: RMSNorm
before each half of a layer, RMSNorm on every query and key head, rotary embedding with the two halves of a head as
pairs, grouped key/value heads, SwiGLU, and one table for both embedding and output.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    """The hyper-parameters of one model; stored in every checkpoint."""
    vocab: int
    dim: int = 256
    n_layers: int = 6
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 64
    ffn_dim: int = 768
    n_ctx: int = 1024
    rope_base: float = 10000.0
    eps: float = 1e-6


BLOCK = 192     # queries that attend together in training; later keys are left out of their products


class _RmsNorm(torch.autograd.Function):
    """The norm with its gradient by hand: half the passes over memory that autograd would make."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        x = x.float()
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        unit = x * scale
        ctx.save_for_backward(unit, scale, weight)
        return unit * weight

    @staticmethod
    def backward(ctx, grad):
        unit, scale, weight = ctx.saved_tensors
        along = grad * unit
        share = torch.matmul(along, weight / weight.shape[0]).unsqueeze(-1)
        return (grad * weight).addcmul_(unit, share, value=-1).mul_(scale), along.flatten(0, -2).sum(0), None


def rms_norm(x, weight, eps):
    """Root-mean-square norm over the last axis, in f32."""
    return _RmsNorm.apply(x, weight, eps)


def low(x):
    """bf16 copy for a matrix product; the gradient comes back in the type of x."""
    return x.to(torch.bfloat16)


def rope_tables(shape):
    """cos and sin for every position, [n_ctx, head_dim], the halves holding the same angles."""
    half = shape.head_dim // 2
    freq = shape.rope_base ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = torch.outer(torch.arange(shape.n_ctx, dtype=torch.float32), freq)
    return torch.cat([angle.cos(), angle.cos()], -1), torch.cat([-angle.sin(), angle.sin()], -1)


def rotate(x, cos, sin):
    """Rotary embedding of x [..., seq, head_dim]; sin carries the sign of the first half."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([x[..., half:], x[..., :half]], -1) * sin


class Layer(nn.Module):
    """One transformer layer. Matrices are kept as [out, in], the order in which GGUF stores them."""

    def __init__(self, s):
        super().__init__()
        q_dim, kv_dim = s.n_heads * s.head_dim, s.n_kv_heads * s.head_dim
        self.shape = s
        self.attn_norm = nn.Parameter(torch.ones(s.dim))
        self.attn_q_norm = nn.Parameter(torch.ones(s.head_dim))
        self.attn_k_norm = nn.Parameter(torch.ones(s.head_dim))
        self.ffn_norm = nn.Parameter(torch.ones(s.dim))
        self.attn_q = _matrix(q_dim, s.dim)
        self.attn_k = _matrix(kv_dim, s.dim)
        self.attn_v = _matrix(kv_dim, s.dim)
        self.attn_output = _matrix(s.dim, q_dim, zero=True)
        self.ffn_gate = _matrix(s.ffn_dim, s.dim)
        self.ffn_up = _matrix(s.ffn_dim, s.dim)
        self.ffn_down = _matrix(s.dim, s.ffn_dim, zero=True)

    def forward(self, x, cos, sin, mask):
        x = x + self.attend(low(rms_norm(x, self.attn_norm, self.shape.eps)), cos, sin, mask).float()
        h = low(rms_norm(x, self.ffn_norm, self.shape.eps))
        h = F.silu(F.linear(h, low(self.ffn_gate))) * F.linear(h, low(self.ffn_up))
        return x + F.linear(h, low(self.ffn_down)).float()

    def attend(self, h, cos, sin, mask):
        """Causal attention of h [batch, seq, dim]; each key/value head serves n_heads / n_kv_heads queries."""
        s, (batch, seq, _) = self.shape, h.shape
        group = s.n_heads // s.n_kv_heads
        q = F.linear(h, low(self.attn_q)).view(batch, seq, s.n_kv_heads, group, s.head_dim)
        k = F.linear(h, low(self.attn_k)).view(batch, seq, s.n_kv_heads, s.head_dim)
        v = F.linear(h, low(self.attn_v)).view(batch, seq, s.n_kv_heads, s.head_dim)
        q = rotate(rms_norm(q, self.attn_q_norm, s.eps).permute(0, 2, 3, 1, 4), cos, sin) * s.head_dim ** -0.5
        k = rotate(rms_norm(k, self.attn_k_norm, s.eps).permute(0, 2, 1, 3), cos, sin)
        q = low(q).reshape(batch * s.n_kv_heads, group, seq, s.head_dim)
        k = low(k).reshape(batch * s.n_kv_heads, seq, s.head_dim)
        v = v.permute(0, 2, 1, 3).reshape(batch * s.n_kv_heads, seq, s.head_dim)
        y = torch.cat([_attend_block(q, k, v, mask, i, min(i + BLOCK, seq)) for i in range(0, seq, BLOCK)], 2)
        y = y.view(batch, s.n_heads, seq, s.head_dim).transpose(1, 2).reshape(batch, seq, -1)
        return F.linear(y, low(self.attn_output))


def _attend_block(q, k, v, mask, first, last):
    """Attention of the queries first..last, which see no key from `last` on."""
    heads, group, _, head_dim = q.shape
    score = torch.bmm(q[:, :, first:last].reshape(heads, -1, head_dim), k[:, :last].transpose(1, 2))
    score = score.view(heads, group, last - first, last) + mask[first:last, :last]
    y = torch.bmm(score.softmax(-1).view(heads, -1, last), v[:, :last])
    return y.view(heads, group, last - first, head_dim)


def _matrix(rows, cols, zero=False):
    """A weight matrix; those that write to the residual stream start at zero, so that a layer starts as the identity."""
    return nn.Parameter(torch.zeros(rows, cols) if zero else torch.randn(rows, cols) * cols ** -0.5)


class Spark(nn.Module):
    """The whole model. forward gives the logits of the positions that `keep` selects (all when it is None)."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Parameter(torch.randn(shape.vocab, shape.dim) * 0.02)
        self.output_norm = nn.Parameter(torch.ones(shape.dim))
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.n_layers))
        cos, sin = rope_tables(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens, keep=None):
        seq = tokens.shape[1]
        mask = torch.full((seq, seq), float("-inf"), dtype=torch.bfloat16).triu(1)
        x = F.embedding(tokens, self.token_embd)
        for layer in self.layers:
            x = layer(x, self.cos[:seq], self.sin[:seq], mask)
        x = x.reshape(-1, self.shape.dim)
        if keep is not None:
            x = x[keep]
        return F.linear(low(rms_norm(x, self.output_norm, self.shape.eps)), low(self.token_embd))

    def count(self):
        """Number of parameters."""
        return sum(p.numel() for p in self.parameters())
