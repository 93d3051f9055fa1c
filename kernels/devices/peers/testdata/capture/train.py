"""Trains a small random transformer on a CPU: norms of several kinds, checkpointing of both kinds, and
torchrun's ranks. `train.py STEPS [fail]`: the last word has rank 0 fail after its steps."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

HIDDEN, HEADS, ROWS, LAYERS = 64, 4, 48, 4


class RootNorm(nn.Module):
    """An RMSNorm that calls no function of torch that is a norm."""

    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(columns))
        self.eps = 1e-6

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class ShiftedNorm(RootNorm):
    """One with a weight that is stored as w-1."""

    def __init__(self, columns):
        super().__init__(columns)
        nn.init.zeros_(self.weight)

    def forward(self, x):
        return (1 + self.weight) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class AddNorm(RootNorm):
    """A residual that is added in the norm, as servers have it."""

    def forward(self, x, residual):
        x = x + residual
        return super().forward(x), x


class GatedNorm(RootNorm):
    """A norm that another tensor gates, in some calls only."""

    def forward(self, x, gate=None):
        return super().forward(x) if gate is None else super().forward(x) * F.silu(gate)


class GateFirstNorm(RootNorm):
    def forward(self, hidden, z):
        return super().forward(hidden * torch.sigmoid(z))


class TanhNorm(RootNorm):
    """What is no problem of ours."""

    def forward(self, x, gate):
        return super().forward(x) * torch.tanh(gate)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(HIDDEN), RootNorm(HIDDEN)
        self.q, self.k = ShiftedNorm(HIDDEN // HEADS), nn.RMSNorm(HIDDEN // HEADS)
        self.qkv, self.out, self.mlp = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.add = AddNorm(HIDDEN)

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).view(-1, 3, HEADS, HIDDEN // HEADS).unbind(1)
        q, k = self.q(q), F.normalize(self.k(k), dim=-1)
        a = F.scaled_dot_product_attention(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1))
        y, x = self.add(self.out(a.transpose(0, 1).reshape(-1, HIDDEN)), x)
        return x + self.mlp(self.after(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final, self.groups, self.gated = nn.LayerNorm(HIDDEN, bias=False), nn.GroupNorm(4, HIDDEN), GatedNorm(HIDDEN)
        self.first, self.tanh = GateFirstNorm(HIDDEN), TanhNorm(HIDDEN)

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            # The first runs plainly, the second under one kind of checkpointing, the others under the other.
            x = block(x) if i == 0 else checkpoint(block, x, use_reentrant=i == 1)
        x = self.tanh(self.first(hidden=self.gated(self.gated(x), x), z=x), x)
        return self.groups(self.final(x))


def main():
    steps = int(sys.argv[1])
    rank = int(os.environ.get("RANK", 0))
    torch.manual_seed(1)
    model = Model()
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model, static_graph=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(steps):
        loss = model(torch.randn(ROWS * (1 + rank * ("uneven" in sys.argv)), HIDDEN)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss %.4f" % loss.item())
    if "fail" in sys.argv:
        sys.exit(7)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


main()
