# SPDX-License-Identifier: Apache-2.0
"""A module of PyTorch, its training, and comparisons of states."""

from __future__ import annotations

import torch
from torch import nn


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_same(left, right, where="state"):
    """Compares nested state dictionaries, bit for bit."""
    if isinstance(left, torch.Tensor):
        assert isinstance(right, torch.Tensor), where
        assert (left.dtype, left.shape) == (right.dtype, right.shape), where
        assert bits(left) == bits(right), where
    elif isinstance(left, dict):
        assert list(left) == list(right), where
        for key in left:
            assert_same(left[key], right[key], f"{where}[{key!r}]")
    elif isinstance(left, (list, tuple)):
        assert type(left) is type(right) and len(left) == len(right), where
        for i, each in enumerate(left):
            assert_same(each, right[i], f"{where}[{i}]")
    else:
        assert type(left) is type(right) and left == right, where


class Net(nn.Module):
    """Buffers, tied weights, a norm, and extra state."""

    def __init__(self, seed=0, extra=None):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("position", torch.arange(3) + seed)
        self.register_buffer("scratch", torch.ones(2), persistent=False)
        self.extra = extra

    def forward(self, ids):
        return self.out(self.body(self.norm(self.embed(ids))))

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, extra):
        self.extra = extra


def train(model, optimizer, steps=3, scheduler=None, seed=5):
    torch.manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randint(0, 7, (16,))).square().mean()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
