# SPDX-License-Identifier: MIT
"""The optimisers: Muon for the matrices of the layers, Adam for the rest.

Muon replaces the momentum of a matrix by the nearest orthogonal one, found with a few Newton-Schulz iterations (Keller
Jordan, 2024). It learns more from a token than Adam does, which matters when tokens are dear. Matrices of one shape are
stacked, so that an iteration is a few large products.
"""
import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(g, steps=5):
    """Newton-Schulz on a stack of matrices [n, rows, cols], in bf16."""
    x = (g / (g.flatten(1).norm(dim=1)[:, None, None] + 1e-7)).to(torch.bfloat16)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2).contiguous()
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = a * x + torch.bmm(b * gram + c * torch.bmm(gram, gram), x)
    return (x.transpose(1, 2) if tall else x).float()


class Muon:
    """Muon over a list of matrices, with decoupled weight decay."""

    def __init__(self, params, momentum=0.95, decay=0.05):
        self.groups = {}
        for p in params:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.momentum, self.decay = momentum, decay
        self.state = {s: torch.zeros(len(ps), *s) for s, ps in self.groups.items()}

    def step(self, lr, pool):
        """Updates the groups in the threads of a pool, the costliest first."""
        shapes = sorted(self.groups, key=lambda s: -min(s) * s[0] * s[1] * len(self.groups[s]))
        list(pool.map(lambda shape: self._update(shape, lr), shapes))

    @torch.no_grad()
    def _update(self, shape, lr):
        params = self.groups[shape]
        grad = torch.stack([p.grad for p in params])
        m = self.state[shape].mul_(self.momentum).add_(grad, alpha=1 - self.momentum)
        update = orthogonal(grad.lerp(m, self.momentum)) * max(1.0, shape[0] / shape[1]) ** 0.5
        for p, u in zip(params, update):
            p.mul_(1 - lr * self.decay).add_(u, alpha=-lr)


class Adam:
    """Adam without weight decay, for the embedding and the norms."""

    def __init__(self, params, betas=(0.9, 0.98)):
        self.params, self.betas, self.t = list(params), betas, 0
        self.state = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.params]

    @torch.no_grad()
    def step(self, lr):
        self.t += 1
        b1, b2 = self.betas
        for p, (m, v) in zip(self.params, self.state):
            m.lerp_(p.grad, 1 - b1)
            v.lerp_(p.grad.square(), 1 - b2)
            scale = lr * (1 - b2 ** self.t) ** 0.5 / (1 - b1 ** self.t)
            p.addcdiv_(m, v.sqrt().add_(1e-10), value=-scale)
