"""Moves the sums of a float64 run by the rounding errors that another order of summation may have.

A sum of n terms has n - 1 roundings. Their error grows with the square root of n (Higham and Mary, A new approach to
probabilistic rounding error analysis, 2019), and with the terms where they cancel. Eager sums by pairs, so its own
error does not show what a sum in vectors, or one element after the other, may cost.

Private parts of torch: TorchDispatchMode (torch.utils._python_dispatch), the only hook that sees the calls of autograd.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.numerics.torch_references import functional_decompositions

#: A run moves a sum of n terms by SHARE × sqrt(n) × eps. The policy's factor multiplies what comes of it: with 4, that
#: is Higham and Mary's bound for lambda = 4. `python benchmarks/summation.py` counts the correct sums that exceed it.
SHARE = 0.5

#: Operator → the operand whose last dimension is summed over.
_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "addmv": 1, "baddbmm": 1, "addbmm": 1}
#: An element of the result is the sum of as many terms as the largest operand has for each.
_REDUCTIONS = ("sum", "mean", "prod", "var", "var_mean", "std", "scatter_add", "index_add")
#: An element of the result is the sum of the elements before it.
_SCANS = ("cumsum", "cumprod")


class SummationError(TorchDispatchMode):
    """Inside, each sum of two terms or more moves: its terms and its result, each up or down.

    `seed` decides which. `scale`: how much, in multiples of the rule. `eps`: the machine epsilon of the dtype in which
    compiled code sums. Operators that Inductor decomposes are decomposed, so that their sums are seen.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int, scale: float, eps: float) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)
        self._unit = scale * eps * SHARE

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        packet = getattr(func, "overloadpacket", None)  # higher-order operators have none
        if packet is None or torch.Tag.nondeterministic_seeded in func.tags:
            return func(*args, **kwargs)
        if decomposition := functional_decompositions().get(func):
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        terms = terms_of(packet.__name__, args, result)
        if terms < 2:
            return result
        size = self._unit * math.sqrt(terms)
        result = func(*(self._moved(value, size) for value in args), **kwargs)
        if isinstance(result, tuple):
            return tuple(self._moved(value, size) for value in result)
        return self._moved(result, size)

    def _moved(self, value: Any, size: float) -> Any:
        if not _is_wide(value):
            return value
        signs = torch.randint(2, value.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        return value * (1 + signs * size)


def _is_wide(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)


def terms_of(name: str, args: Sequence[Any], result: Any) -> int:
    """How many terms an element of `result` is the sum of, at most; 0 for an operator that sums nothing."""
    tensors = [value for value in args if _is_wide(value)]
    if not tensors or not all(tensor.numel() for tensor in tensors):
        return 0
    if name in _PRODUCTS:
        return args[_PRODUCTS[name]].shape[-1]
    if name in _SCANS:
        return max(tensors[0].shape, default=0)
    if name in _REDUCTIONS:
        one = result[0] if isinstance(result, tuple) else result
        return max(tensor.numel() for tensor in tensors) // max(one.numel(), 1)
    if name == "convolution":
        return args[1].numel() // min(args[1].shape[:2])
    if name == "convolution_backward":
        return max(args[2].numel() // min(args[2].shape[:2]), args[0].numel() // args[0].shape[1])
    return 0
