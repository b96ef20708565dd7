"""Functions with their inputs, to generate code for: one for each kind of code that facts distinguish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.cases.inputs import image, tensor


def flip(x):
    return x.flip(-1)


def pointwise(x, y):
    return (x + y).tanh() * 2


def total(x):
    return x.sum()


def softmax(x):
    return x.softmax(-1)


def attention(q, k, v):
    return (q @ k.transpose(-2, -1)).div(5.0).softmax(-1) @ v


def scatter(x, index, source):
    return x.scatter_add(0, index, source)


def linear(a, b, bias):
    import torch

    return torch.nn.functional.linear(a, b, bias).relu()


def two(x, a):
    return ((x + 1) @ a).sigmoid()


_HEADS = tensor(2, 4, 16, 32, dtype="f16")

FUNCTIONS: dict[Callable[..., Any], dict[str, Any]] = {
    flip: {"x": image()},
    pointwise: {"x": tensor(64, 100), "y": tensor(64, 100)},
    total: {"x": tensor(4_000_000)},
    softmax: {"x": tensor(64, 1000)},
    attention: {"q": _HEADS, "k": _HEADS, "v": _HEADS},
    scatter: {"x": tensor(64, 64), "index": tensor(32, 64, dtype="i64", low=0, high=64), "source": tensor(32, 64)},
    linear: {"a": tensor(64, 48), "b": tensor(40, 48), "bias": tensor(40)},
    two: {"x": tensor(64, 64), "a": tensor(64, 64)},
}
