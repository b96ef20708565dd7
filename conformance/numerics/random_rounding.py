"""Runs a program again with other roundings, and says which elements of its results nobody can know.

Random rounding (J. Vignes, A stochastic arithmetic for reliable scientific computation, 1993): each operator is
computed in float64 too, and its result becomes one of the numbers beside that, at random. What cancels to noise then
differs between the runs. A sum is out by as much as another order of its terms may make it. Values that the program
has lost are replaced by NaN in one run and by numbers in the others, so that all elements that depend on them differ:

    overflow    float64 has a number beyond the dtype's range, or the terms of a sum reach it
    underflow   below the smallest normal number, the result may be 0
    lost inside float64 has another number. Then, and for each norm, the operator is decomposed
    undefined   a number is beyond the integers that it is converted to, or memory that nobody has written to

Where an operator may take any of equal numbers, it takes another one. In one run all are the first of them, and in
another the last, so that all elements that depend on their order differ.

What is infinite in float64 too, such as a mask of -inf, is not lost.

Private parts of torch: TorchDispatchMode (torch.utils._python_dispatch), the only hook that sees the calls of autograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from conformance.numerics.conversions import are_integers, beyond, source_of
from conformance.numerics.operator_recorder import UNWRITTEN
from conformance.numerics.summation_error import SHARE, terms_of
from conformance.numerics.torch_references import functional_decompositions

#: What lost values become, and whether infinities stay where a result is beyond the dtype's range: one run for each.
RUNS = ((math.nan, False), (0.0, False), (1.0, False), (-1.0, False), (math.nan, True))
#: Beside float64, a result without noise of a sum differs by no more than this share of itself.
_LOST_INSIDE = 1 / 8
#: Their terms are factors.
_OF_FACTORS = ("prod", "cumprod")
#: Operators that do not say which of equal numbers they take → the position of their argument `dim`.
_OF_ANY_ORDER = {
    torch.ops.aten.sort.default: 1,
    torch.ops.aten.median.dim: 1,
    torch.ops.aten.nanmedian.dim: 1,
    torch.ops.aten.mode.default: 1,
    torch.ops.aten.topk.default: 2,
    torch.ops.aten.kthvalue.default: 2,
}
_OF_NO_NUMBERS = {torch.Tag.nondeterministic_seeded, torch.Tag.inplace_view}
_OF_SQUARES = ("var", "var_mean", "std")


@dataclass(frozen=True)
class Doubt:
    """What other roundings change in a tensor.

    `spread`: float64 in the tensor's shape: how far an element moves. `undecided`: bool: any result is right.
    """

    spread: torch.Tensor
    undecided: torch.Tensor


def doubt(eager: torch.Tensor, others: Sequence[Any], reference: torch.Tensor | None) -> Doubt:
    """`eager`: on the CPU. `others`: the same tensor of each of RUNS. `reference`: in float64, if runs lose values.

    An integer that changes is undecided. So is what eager has lost, where float64 has a number in the dtype's range. A
    result that is infinite because float64 has a number beyond it is not.
    """
    wide = torch.complex128 if eager.dtype.is_complex else torch.float64
    floating = eager.dtype.is_floating_point or eager.dtype.is_complex
    spread, undecided = torch.zeros(eager.shape, dtype=torch.float64), torch.zeros(eager.shape, dtype=torch.bool)
    tensors = [each.detach().cpu() for each in others if isinstance(each, torch.Tensor)]
    for other in tensors:
        if other.shape != eager.shape:
            undecided[...] = True
            continue
        if not floating:
            undecided |= other != eager
            continue
        one, two = eager.to(wide), other.to(wide)
        same = (one == two) | (one.isnan() & two.isnan())
        finite = one.isfinite() & two.isfinite()
        undecided |= ~same & ~finite
        spread = spread.maximum(torch.where(finite, (one - two).abs(), 0.0))
    if floating and reference is not None and tensors and tensors[-1].shape == eager.shape:
        undecided |= ~eager.isfinite() & reference.to(eager.dtype).isfinite()
        beyond_range = eager.isinf() & reference.isfinite() & (reference.to(eager.dtype) == eager)
        undecided &= ~(beyond_range & (tensors[-1] == eager))
    return Doubt(spread, undecided)


class RandomRounding(TorchDispatchMode):
    """Inside, each result of an operator is rounded anew.

    `run`: the number of one of RUNS. `loses`: whether what overflows or is lost inside an operator is replaced.
    """

    supports_higher_order_operators = True

    def __init__(self, run: int, *, loses: bool) -> None:
        super().__init__()
        self._generator, self._loses = torch.Generator().manual_seed(run), loses
        self._replacement, self._keeps_infinity = RUNS[run]

    def within(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with other roundings."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return call

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if not _rounds(func, (args, kwargs)):
            result = func(*args, **kwargs)
            is_unwritten = getattr(func, "overloadpacket", func).__name__ in UNWRITTEN
            return result.fill_(self._replacement) if is_unwritten and _is_floating(result) else result
        if func in _OF_ANY_ORDER and args[0].dim():
            return self._with_ties_exchanged(func, args, kwargs)
        decomposition = functional_decompositions().get(func) if self._loses else None
        if decomposition and "norm" in func.overloadpacket.__name__:
            return self._decomposed(func, decomposition, args, kwargs)
        try:
            true, bound = _in_float64(func, args, kwargs)
        except (RuntimeError, TypeError):  # no float64, as for quantised numbers
            return func(*args, **kwargs)
        squares_overflow = any(map(_squares_overflow, tree_leaves((args, kwargs))))
        truth = [
            each.nan_to_num(0, 0, 0) if squares_overflow and _is_floating(each) else each for each in tree_leaves(true)
        ]
        result = func(*args, **kwargs)
        pairs = list(zip(tree_leaves(result), truth, bound, strict=True))
        if decomposition and any(most is None and _is_lost(*pair) for *pair, most in pairs):
            return self._decomposed(func, decomposition, args, kwargs)
        if (source := source_of(func, args)) is not None and are_integers(result):
            limits = torch.iinfo(result.dtype)
            made_up = limits.max if math.isnan(self._replacement) else max(int(self._replacement), limits.min)
            result.copy_(torch.where(beyond(source, result.dtype), made_up, result))
        for one, two, most in pairs:
            if _is_floating(one) and one.shape == two.shape and _is_dense(one):
                self._round(_real(one), _real(two.to(_wide(one.dtype))), most)
        return result

    def _decomposed(self, func: Any, decomposition: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result by the decomposition, which shows which elements depend on what is lost inside."""
        with self:
            result = decomposition(*args, **kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result

    def _with_ties_exchanged(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Values and indices, where equal numbers come in another order."""
        place = _OF_ANY_ORDER[func]
        dim = args[place] if len(args) > place else kwargs.get("dim", -1)
        order = torch.randperm(args[0].shape[dim], generator=self._generator).to(args[0].device)
        values, indices = func(args[0].index_select(dim, order), *args[1:], **kwargs)
        indices = order[indices]
        if not math.isnan(self._replacement) or values.dim() < args[0].dim() or not values.numel():
            return values, indices
        return values, indices.gather(dim, _place_of_equals(values, dim, first=self._keeps_infinity))

    def _round(self, found: torch.Tensor, true: torch.Tensor, most: _Bound | None) -> None:
        """Writes other values into `found`, a result. `true`: float64, of its shape."""
        info = torch.finfo(found.dtype)
        noise = info.eps * true.abs()
        lost_inside = _differ(found, true)
        if most is not None:
            of_parts = (*most.magnitude.shape, *[1] * (true.dim() - most.magnitude.dim()))  # complex numbers have two
            magnitude, reaches = most.magnitude.view(of_parts), most.reaches.view(of_parts)
            error = most.share * magnitude
            lost_inside = (reaches > _range(info)) | ((found - true).abs() > info.eps * 8 * error)
            noise = noise.maximum(_epsilon_of_sums(info) * error)
        lost = true.isfinite() & ((true.abs() > info.max) | ~found.isfinite() | lost_inside) & self._loses
        if self._keeps_infinity and most is None:
            lost &= ~(found.isinf() & (true.abs() > info.max))
        moved = (true + self._signs(true) * noise).to(found.dtype)
        moved = torch.where((moved.abs() < info.tiny) & (self._signs(true) > 0), 0.0, moved)
        keeps = ~true.isfinite() | ((found == true) & (most is None))
        found.copy_(torch.where(lost, self._replacement, torch.where(keeps, found, moved)))

    def _signs(self, like: torch.Tensor) -> torch.Tensor:
        """-1 or 1 for each element."""
        return (torch.randint(2, like.shape, generator=self._generator) * 2 - 1).to(like.device)


@dataclass(frozen=True)
class _Bound:
    """What another order of the terms, or factors, may change. The tensors are float64, in the result's shape.

    `magnitude`: of a sum without the signs, or of a product. `share`: the share of it that changes, in roundings.
    `reaches`: the most that a partial sum or product may reach, or one over the least of a product.
    """

    magnitude: torch.Tensor
    share: float
    reaches: torch.Tensor


def _in_float64(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[_Bound | None]]:
    """What the operator computes in float64, and the bound of each tensor in it."""
    wide_args, wide_kwargs = tree_map(_widened, (tuple(args), dict(kwargs)))
    name = func.overloadpacket.__name__.strip("_")
    unsigned = tree_map(lambda each: each.abs() if _is_floating(each) else each, (wide_args, wide_kwargs))
    true = func(*wide_args, **wide_kwargs)
    if (terms := terms_of(name, wide_args, true)) < 2:
        return true, [None] * len(tree_leaves(true))
    share = SHARE * math.sqrt(terms)
    if name in _OF_FACTORS:
        factors, rest = unsigned[0][0], unsigned[0][1:]
        large = func(factors.clamp(min=1), *rest, **unsigned[1])
        small = func(factors.masked_fill(factors == 0, 1).clamp(max=1), *rest, **unsigned[1])
        return true, [_Bound(true.abs(), share, large.maximum(1 / small))]
    if name in _OF_SQUARES:
        squares, *mean = tree_leaves(true)
        variance = squares.square() if name == "std" else squares
        small = 1 / variance.masked_fill(variance == 0, 1)
        bounds: list[_Bound | None] = [_Bound(squares, share, (variance * terms).maximum(small))]
        return true, bounds + [_Bound(each.abs(), share, each.abs() * terms) for each in mean]
    times = terms if name == "mean" else 1
    return true, [
        _Bound(each, share, each * times) if _is_floating(each) else None
        for each in tree_leaves(func(*unsigned[0], **unsigned[1]))
    ]


def _rounds(func: Any, arguments: Any) -> bool:
    """Whether an operator computes numbers, and the same each time."""
    if getattr(func, "namespace", "") not in ("aten", "prims") or func.is_view:  # higher-order operators have none
        return False
    if not _OF_NO_NUMBERS.isdisjoint(func.tags) or func.overloadpacket.__name__ in UNWRITTEN:
        return False
    return any(_is_floating(each) for each in tree_leaves(arguments))


def _squares_overflow(value: Any) -> bool:
    """Whether float64 loses the squares of finite numbers of float64: nothing wider shows it."""
    if not _is_floating(value) or _wide(value.dtype) != value.dtype or not value.numel():
        return False
    largest = float(value.abs().amax())  # NaN if one is NaN
    return math.sqrt(torch.finfo(torch.float64).max) < largest < math.inf


def _is_lost(found: Any, true: Any) -> bool:
    """Whether float64 has other numbers in a result. It is not, where they are beyond the dtype's range."""
    if not _is_floating(found) or found.shape != true.shape:
        return False
    in_range = true.isfinite() & (true.abs() <= torch.finfo(found.dtype).max)
    return bool((in_range & (~found.isfinite() | _differ(found, true))).any())


def _differ(found: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """Where a result is further from float64 than rounding makes it: bool."""
    return (found - true).abs() > _LOST_INSIDE * found.abs().maximum(true.abs()) + torch.finfo(found.dtype).tiny


def _widened(value: Any) -> Any:
    """A copy in float64 or complex128; these dtypes themselves for narrower ones."""
    if isinstance(value, torch.dtype):
        return _wide(value) if value.is_floating_point or value.is_complex else value
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(_wide(value.dtype), copy=True) if _is_floating(value) else value.clone()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.dtype.is_floating_point or value.dtype.is_complex)


def _is_dense(value: torch.Tensor) -> bool:
    """Whether no two elements share memory."""
    return value.layout == torch.strided and not any(
        stride == 0 < size - 1 for size, stride in zip(value.shape, value.stride(), strict=True)
    )


def _place_of_equals(values: torch.Tensor, dim: int, *, first: bool) -> torch.Tensor:
    """For each of sorted numbers, where the first, or the last, of those that equal it is: int64."""
    if not first:
        values = values.flip(dim)
    shape = [-1 if each == dim % values.dim() else 1 for each in range(values.dim())]
    places = torch.arange(values.shape[dim], device=values.device).view(shape).expand(values.shape)
    repeats = torch.cat([torch.ones_like(values.narrow(dim, 0, 1)), values.diff(dim=dim)], dim) == 0
    found = torch.where(repeats, 0, places).cummax(dim).values
    return found if first else values.shape[dim] - 1 - found.flip(dim)


def _real(value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def _epsilon_of_sums(info: torch.finfo) -> float:
    """The machine epsilon in which sums are computed: at least float32's."""
    return min(info.eps, torch.finfo(torch.float32).eps)


def _range(info: torch.finfo) -> float:
    """The largest number in which sums are computed."""
    return max(info.max, torch.finfo(torch.float32).max)
