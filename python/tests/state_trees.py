# SPDX-License-Identifier: Apache-2.0
"""Random states: dictionaries and lists of arrays, tensors, modules, objects with
state_dict, and plain values."""

from __future__ import annotations

import copy
import math
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

KEYS = ("a", "b", "x.y", "0", "1", "é", "a b", "A" * 40, "$tensor", "state")
SHAPES = ((), (0,), (3,), (2, 3), (4, 0, 2), (300,))
DTYPES = ("f8", "f4", "f2", "i1", "i8", "u2", "u8", "?")
TORCH_DTYPES = ("float32", "bfloat16", "float16", "int64", "uint8", "bool")
PLAIN = (
    None, True, 0, -1, 2**70, 0.1, math.inf, -0.0, "", "€\x00", b"\xff\x00",
    {1, 2}, frozenset({"a"}), 1 + 2j, np.float32(1.5), np.uint8(7), bytearray(b"xy"),
)  # fmt: skip


class Holder:
    """An object whose state dictionary is its own."""

    def __init__(self, state: dict[Any, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[Any, Any]:
        return self.state

    def load_state_dict(self, state: dict[Any, Any]) -> None:
        self.state = state


class Copier(Holder):
    """An object that makes a state dictionary, and copies one."""

    def state_dict(self) -> dict[Any, Any]:
        return copy.deepcopy(self.state)

    def load_state_dict(self, state: dict[Any, Any]) -> None:
        self.state = copy.deepcopy(state)


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (
        torch is not None and isinstance(value, torch.Tensor)
    )


def is_module(value: Any) -> bool:
    return torch is not None and isinstance(value, torch.nn.Module)


def is_object(value: Any) -> bool:
    return is_module(value) or isinstance(value, Holder)


def parts_of(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    if not isinstance(value, (dict, list, tuple)):
        yield path, value
    for key, each in parts_of(value):
        yield from leaves(each, (*path, key))


def dictionaries(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """The dictionaries within a value, with their paths."""
    if isinstance(value, dict):
        yield path, value
    for key, each in parts_of(value):
        yield from dictionaries(each, (*path, key))


def canonical(value: Any) -> Any:
    """A value that is equal for states of equal types, order and bits."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if is_array(value):
        bits = value.detach().contiguous().reshape(-1).view(torch.uint8)
        return "tensor", str(value.dtype), tuple(value.shape), bits.numpy().tobytes()
    if is_module(value):
        return type(value), canonical(dict(value.state_dict()))
    if isinstance(value, Holder):
        return type(value), canonical(value.state)
    if isinstance(value, (dict, list, tuple)):
        parts = [(repr(key), canonical(each)) for key, each in parts_of(value)]
        return type(value), parts
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(map(repr, value))
    return type(value), repr(value)


class Trees:
    """Makes and changes random states."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one_in(self, n: int) -> bool:
        return self.random.randrange(n) == 0

    def state(self) -> dict[str, Any]:
        return {self.key(): self.tree() for _ in range(self.random.randint(1, 5))}

    def key(self) -> str:
        return self.random.choice(KEYS)

    def tree(self, depth: int = 0) -> Any:
        kind = self.random.randrange(20)
        count = self.random.randrange(4)
        if depth < 3 and kind < 4:
            return {self.key(): self.tree(depth + 1) for _ in range(count)}
        if depth < 3 and kind < 7:
            made = [self.tree(depth + 1) for _ in range(count)]
            return made if kind < 6 else tuple(made)
        if kind < 10:
            return self.random.choice([Holder, Copier])(self.state_dict())
        if kind < 12 and torch is not None:
            return self.module()
        return self.leaf()

    def state_dict(self) -> dict[Any, Any]:
        keys = self.random.sample(["s", "t", "u", 0, 1], self.random.randrange(4))
        return {
            key: {"q": self.leaf(), 2: [self.leaf()]} if self.one_in(4) else self.leaf()
            for key in keys
        }

    def module(self) -> Any:
        torch.manual_seed(self.random.getrandbits(30))
        nn = torch.nn
        tied = nn.ModuleDict({"e": nn.Embedding(5, 3), "o": nn.Linear(3, 5)})
        tied["o"].weight = tied["e"].weight
        return self.random.choice(
            [
                nn.Linear(3, 2),
                nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4)),
                nn.Linear(2, 2).to(torch.bfloat16),
                tied,
            ]
        )

    def leaf(self) -> Any:
        kind = self.random.randrange(3 if torch is not None else 2)
        shape = self.random.choice(SHAPES)
        if kind == 0:
            return self.plain()
        if kind == 2:
            dtype = getattr(torch, self.random.choice(TORCH_DTYPES))
            made = self.filled(torch.zeros(shape, dtype=dtype))
            return made.t() if made.dim() == 2 and self.one_in(2) else made
        array = self.filled(np.zeros(shape, self.random.choice(DTYPES)))
        return np.asfortranarray(array) if self.one_in(4) else array

    def plain(self, depth: int = 0) -> Any:
        if depth == 3 or not self.one_in(4):
            return self.random.choice([*PLAIN, self.random.getrandbits(30)])
        made = [self.plain(depth + 1) for _ in range(self.random.randrange(3))]
        keys = self.random.sample(["a", 1, (1, 2), "$x", None, 2.5], len(made))
        types: list[Callable[[Any], Any]] = [list, tuple]
        if self.one_in(2):
            return self.random.choice(types)(made)
        return self.random.choice([dict, OrderedDict])(zip(keys, made))

    def filled(self, array: Any) -> Any:
        """Writes random bits into an array."""
        values = np.random.default_rng(self.random.getrandbits(30))
        if isinstance(array, np.ndarray):
            array[...] = values.integers(0, 2**7, array.shape).astype(array.dtype)
        else:
            with torch.no_grad():
                array.copy_(torch.as_tensor(values.integers(0, 2**7, array.shape)))
        return array

    def scrambled(self, value: Any) -> Any:
        """A state of the same structure with other values, as in the next run."""
        if isinstance(value, np.ndarray):
            return self.filled(np.zeros_like(value, order="C"))
        if is_array(value):
            return self.filled(torch.zeros(value.shape, dtype=value.dtype))
        if is_module(value):
            made = copy.deepcopy(value)
            for each in made.state_dict().values():
                self.filled(each)
            return made
        if isinstance(value, Holder):  # which may have no state at first
            state = {} if self.one_in(3) else self.scrambled(value.state)
            return type(value)(state)
        if isinstance(value, dict):
            return type(value)((k, self.scrambled(each)) for k, each in value.items())
        if isinstance(value, (list, tuple)):
            return type(value)(self.scrambled(each) for each in value)
        return self.plain()

    def trained(self, value: Any) -> Any:
        """Changes some values, in place where that is possible."""
        if isinstance(value, dict):
            for key in value:
                value[key] = self.trained(value[key])
        elif isinstance(value, list):
            value[:] = [self.trained(each) for each in value]
        elif isinstance(value, tuple):
            return tuple(self.trained(each) for each in value)
        elif self.one_in(3):
            pass
        elif is_array(value):
            return self.filled(copy.deepcopy(value) if self.one_in(3) else value)
        elif is_module(value):
            for each in value.state_dict().values():
                self.filled(each)
        elif isinstance(value, Holder):
            old = copy.deepcopy(value.state)
            value.state = self.state_dict() if self.one_in(3) else self.trained(old)
        else:
            return self.plain()
        return value

    def changed(self, state: dict[str, Any]) -> dict[str, Any]:
        """Adds, removes, replaces and renames entries of dictionaries."""
        for _ in range(self.random.randint(1, 2)):
            _, within = self.random.choice(list(dictionaries(state)))
            kind = self.random.randrange(4)
            if kind == 0 or not within:
                within[self.key()] = self.tree(2)
                continue
            key = self.random.choice(list(within))
            if kind == 1:
                within[key] = self.tree(2)
            elif kind == 2:
                within[self.key()] = within.pop(key)
            elif len(state) > 1:
                within.pop(key)
        return state
