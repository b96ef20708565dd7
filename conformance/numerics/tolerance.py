"""How far a result may be from float64: the policy, its numbers, and the measurement of one tensor.

An element of the compiled result passes when

    |compiled - float64|  <=  factor × eager's error there  +  floor × ulp(float64)

Eager's error *there* is the largest that eager makes on any element of no greater magnitude, and on no fewer than
NEIGHBOURS elements: an element's own error may be nil by luck, and the largest of the whole tensor would excuse a small
element by the error of a big one. Where that is not enough, what float64's own answer moves by when inputs move by an
ulp counts as eager's error, where it is larger (holding.py): of the element, or in a tensor of fewer elements, of any.

Exact instead, bit for bit: integers, booleans, `exact`. Exact in value: where all of eager's elements (NEIGHBOURS_EXACT
or more) equal float64's, as for whatever only moves or selects data, compiled's must too.

NaN and infinity: see `_settled`. Signs of zeros and of NaN, and what a NaN holds, are compared for `exact` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from conformance.cases.numerics_policy import Policy

NEIGHBOURS = 64
NEIGHBOURS_EXACT = 16
#: As many ulp below the largest number, infinity is next door.
NEAR_MAX = 8

OWN_BITS = "eager's own bits"
MISPLACED = "NaN and inf must be where eager's are"


@dataclass(frozen=True)
class Measured:
    """One tensor's errors.

    `wrong` of `total` elements do not pass. `index`: the worst element; `error` (compiled's), `eager_error` and
    `allowed` are that element's, in ulp of its float64 value. `exact`: nothing is allowed; `why`: the rule, where it is
    not POLICY.
    """

    total: int
    wrong: torch.Tensor  # bool, in the shape of the tensor
    index: tuple[int, ...] | None
    exact: bool
    error: float = 0.0
    eager_error: float = 0.0
    allowed: float = 0.0
    why: str = ""

    @cached_property
    def off(self) -> int:
        return int(self.wrong.sum())


def measure(
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor | None,
    policy: Policy,
    sensitivity: torch.Tensor | float = 0.0,
    *,
    may_be_exact: bool = True,
) -> Measured:
    """Compares values: cpu tensors of one shape; `got` and `eager` of one dtype.

    `reference` (float64 or complex128) is used for floating dtypes; None takes eager's values. `sensitivity`: eager's
    error is taken to be no less, of all elements or (in the tensor's shape, real) of each. `may_be_exact`: whether
    elements that eager has exact must be exact, instead of being luck.
    """
    if policy.exact or not (eager.dtype.is_floating_point or eager.dtype.is_complex):
        wrong = _bits_differ(got, eager)
        return Measured(got.numel(), wrong, _first(wrong), True, why="must be equal bit for bit")
    if policy.factor_and_floor(eager.dtype)[0] >= 1 and identical(
        got, eager
    ):  # the usual case
        return Measured(got.numel(), torch.zeros(got.shape, dtype=torch.bool), None, False, why=OWN_BITS)
    wide = torch.complex128 if eager.dtype.is_complex else torch.float64
    reference = eager.to(wide) if reference is None else reference.to(wide)
    parts = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (got, eager, reference)]
    values, eager_values, reference = (t.resolve_neg().to(torch.float64) for t in parts)
    if eager.dtype.is_complex and isinstance(sensitivity, torch.Tensor):
        sensitivity = sensitivity.unsqueeze(-1)
    result = _measure_real(values, eager_values, reference, eager.dtype, policy, sensitivity, may_be_exact)
    if not eager.dtype.is_complex:
        return result
    index = None if result.index is None else result.index[:-1]
    return replace(result, total=got.numel(), wrong=result.wrong.any(-1), index=index)


def _measure_real(
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor,
    dtype: torch.dtype,
    policy: Policy,
    sensitivity: torch.Tensor | float,
    may_be_exact: bool,
) -> Measured:
    finite = eager.isfinite()
    settled = _settled(got, eager, reference, dtype)
    misplaced = ~settled & (~got.isfinite() | (~finite & ~reference.isfinite()))
    if misplaced.any():
        return Measured(got.numel(), misplaced, _first(misplaced), False, float("inf"), why=MISPLACED)
    # Where eager is finite and float64 is not, eager is what there is to compare with.
    reference = torch.where(finite & ~reference.isfinite(), eager, reference)
    zero = torch.zeros((), dtype=torch.float64)
    error = torch.where(settled, zero, (got - reference).abs())
    eager_error = torch.where(finite, (eager - reference).abs(), zero)
    magnitude = torch.where(settled & ~finite, zero, reference.abs())
    measurable = _component(dtype) != torch.float64 and policy.reference == "float64"
    exact = measurable and may_be_exact and not eager_error.any() and int(finite.sum()) >= NEIGHBOURS_EXACT
    ulp = ulp_of(magnitude if measurable or not got.numel() else magnitude.amax().expand_as(magnitude), dtype)
    factor, floor = policy.factor_and_floor(dtype)
    if exact:
        allowed = torch.zeros_like(ulp)
    elif bool((error <= floor * ulp).all()):
        allowed = floor * ulp  # the usual way: no need to sort
    else:
        least = torch.as_tensor(sensitivity, dtype=torch.float64)
        allowed = factor * torch.maximum(eager_error_there(eager_error, magnitude), least) + floor * ulp
    wrong = ~(error <= allowed)  # a NaN is wrong
    index = _largest(torch.where(wrong, (error - allowed) / ulp, -torch.inf) if wrong.any() else error / allowed)
    if index is None:
        return Measured(0, wrong, None, exact)
    return Measured(
        got.numel(),
        wrong,
        index,
        exact,
        *(float(t[index] / ulp[index]) for t in (error, eager_error, allowed)),
        why="all of eager's elements equal float64's, so these must too" if exact else "",
    )


def _settled(got: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where what is NaN or infinite decides that an element is right, and there is no distance to measure.

    Where eager is not finite, compiled must be what eager is; or what float64 is, rounded; or, where float64 is finite
    (eager has overflowed on the way, as float16 does early), it may overflow as well.
    Where eager is finite, compiled must be, unless float64 is within some ulp of overflowing.
    """
    info = torch.finfo(dtype)
    finite, infinite = eager.isfinite(), ~got.isfinite()
    rounded = reference.to(_component(dtype)).to(torch.float64)
    as_eager, as_reference = _same(got, eager), _same(got, rounded)
    near = got.isinf() & reference.isfinite() & (reference.abs() > info.max * (1 - NEAR_MAX * info.eps))
    near &= got.sign() == reference.sign()
    overflowed = infinite & rounded.isfinite()
    return torch.where(finite, near, as_eager | (infinite & as_reference) | overflowed)


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def ulp_of(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of `dtype` at these magnitudes (float64, not negative, finite)."""
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(magnitude.clamp(min=info.smallest_normal))
    return info.eps * torch.pow(2.0, (exponent - 1).double())


def eager_error_there(error: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """For each element, the largest error of those of no greater magnitude, and of no fewer than NEIGHBOURS."""
    order = magnitude.flatten().argsort()
    largest = error.flatten()[order].cummax(0).values
    largest[:NEIGHBOURS] = largest[:NEIGHBOURS].amax()
    return torch.empty_like(largest).scatter_(0, order, largest).view_as(error)


def identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether all bits are equal: the quick answer, nearly always enough. Tensors of one shape and dtype."""
    as_integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(a.element_size())
    if as_integers is None or a.is_conj() or b.is_conj() or a.is_neg() or b.is_neg():
        return False
    return torch.equal(a.detach().view(as_integers), b.detach().view(as_integers))


def _bits_differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if identical(a, b):
        return torch.zeros(a.shape, dtype=torch.bool)
    if a.is_complex():
        a, b = (torch.view_as_real(t.resolve_conj()) for t in (a, b))
        return _bits_differ(a, b).any(-1)
    floating = a.dtype.is_floating_point
    if floating:  # exact, and the small types know few operations
        a, b = a.double(), b.double()
    differ = a != b
    if floating:
        differ = (differ & ~(a.isnan() & b.isnan())) | ((a == 0) & (torch.signbit(a) != torch.signbit(b)))
    return differ


def _component(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def _first(mask: torch.Tensor) -> tuple[int, ...] | None:
    return _largest(mask.to(torch.uint8)) if bool(mask.any()) else None


def _largest(values: torch.Tensor) -> tuple[int, ...] | None:
    if not values.numel():
        return None
    return tuple(int(i) for i in torch.unravel_index(values.argmax(), values.shape))
