"""Measures how far a result is from float64, and says how far it may be.

An element of the compiled result passes when

    |compiled - float64|  <=  factor × eager's error at that magnitude  +  floor × ulp(float64)

Eager's error *at that magnitude* is the largest error that eager makes on any element of no greater magnitude, taken
over at least NEIGHBOURS elements. The error of the element alone may be 0 by luck. The largest error of the whole
tensor would excuse a small element by the error of a big one. Where elements do not pass, the check perturbs the inputs
by 1 ulp (comparison.py). If float64's own answer moves further than eager's error, that distance counts as eager's
error: of the element, or, in a tensor of fewer than NEIGHBOURS elements, of any element.

These results must be equal bit for bit: integers, booleans, and cases that declare `exact`. Values must be equal where
all elements of eager (NEIGHBOURS_EXACT or more) equal float64's, as they do when a function only moves or selects data.
Fewer different magnitudes could be rounded right by luck: 240 times 1/240 is one rounding. Integers count nevertheless.

For NaN and infinity, see `_decided_by_nonfinite`. Only `exact` compares the signs of zeros. Nothing compares the sign
or the payload of a NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from conformance.cases.tolerance_policy import Policy
from conformance.numerics.error_profile import Buckets, buckets_of, eager_error_up_to_bucket

NEIGHBOURS = 64
NEIGHBOURS_EXACT = 16
#: Within this many ulp of the largest number, a result may overflow to infinity.
NEAR_MAX = 8

#: With inputs of one sign, or far from zero, an element is not judged where eager's error at its magnitude is so many
#: roundings of it: no error can be told from rounding there, and gross ones show elsewhere. For float32; for 16 bits.
_LOST, _LOST_IN_16_BITS = 2**8, 2**4

EAGER_BITS = "the bits are eager's"
_EQUALS_FLOAT64 = "eager equals float64 in every element, so the result must too"
_EXCESS = "at most {:g} ulp more than eager's error at that magnitude, as `excess` of the case says"
MISPLACED = "NaN and inf must be in the same elements as in eager"


@dataclass(frozen=True)
class Measurement:
    """The errors of one tensor.

    `total`: number of elements. `wrong`: bool, in the shape of the tensor; true where an element does not pass.
    `index`: the worst element; () in an empty tensor. `error` (compiled's), `eager_error` and `allowed` are those of
    the worst element, in ulp of its float64 value. `exact`: no error is allowed. `rule`: what decided, unless
    the policy's formula did. `factor`: the least factor on eager's error with which every element would pass; 0 if all
    pass, or if no factor helps. `buckets`: the errors by magnitude, if they were asked for and are measured in ulp.
    """

    total: int
    wrong: torch.Tensor
    index: tuple[int, ...]
    exact: bool
    error: float = 0.0
    eager_error: float = 0.0
    allowed: float = 0.0
    rule: str = ""
    factor: float = 0.0
    buckets: Buckets | None = None

    def without(self, elements: torch.Tensor) -> Measurement:
        """The same where these elements pass. `elements`: bool, in the shape of the tensor."""
        wrong = self.wrong & ~elements
        return replace(self, wrong=wrong, index=_first(wrong))

    @cached_property
    def wrong_count(self) -> int:
        """How many elements do not pass."""
        return int(self.wrong.sum())


def measure(
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor | None,
    policy: Policy,
    sensitivity: torch.Tensor | float = 0.0,
    *,
    may_be_exact: bool = True,
    profiled: bool = False,
    lost: float = math.inf,
) -> Measurement:
    """Compares the values of two CPU tensors.

    `got`, `eager`: tensors of the same shape and dtype. `reference`: float64 or complex128, that shape; used for
    floating dtypes; None takes eager's values. `sensitivity`: the least that counts as eager's error, for all elements,
    or float64 in that shape, for each element. `may_be_exact`: whether a result that eager computes exactly must be
    exact; if not, eager's exact result counts as luck. `lost`: an element passes where what the factor multiplies is
    more than this share of it. `profiled`: whether the result has `buckets`; {} for equal bits.
    """
    if policy.exact or not (eager.dtype.is_floating_point or eager.dtype.is_complex):
        wrong = _unequal(got, eager)
        return Measurement(got.numel(), wrong, _first(wrong), exact=True, rule="must be equal bit for bit")
    factor, _ = policy.factor_and_floor(eager.dtype)
    if factor >= 1 and bits_equal(got, eager):  # the usual case: the error is eager's own
        passes = torch.zeros(got.shape, dtype=torch.bool)
        return Measurement(got.numel(), passes, (), exact=False, rule=EAGER_BITS, buckets={} if profiled else None)
    wide = torch.complex128 if eager.dtype.is_complex else torch.float64
    reference = eager.to(wide) if reference is None else reference.to(wide)
    parts = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (got, eager, reference)]
    values, eager_values, reference = (t.resolve_neg().to(torch.float64) for t in parts)
    if eager.dtype.is_complex and isinstance(sensitivity, torch.Tensor):
        sensitivity = sensitivity.unsqueeze(-1)
    result = _measure_real(
        values, eager_values, reference, eager.dtype, policy, sensitivity, may_be_exact, profiled, lost
    )
    if not eager.dtype.is_complex:
        return result
    return replace(result, total=got.numel(), wrong=result.wrong.any(-1), index=result.index[:-1])


def _measure_real(
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor,
    dtype: torch.dtype,
    policy: Policy,
    sensitivity: torch.Tensor | float,
    may_be_exact: bool,
    profiled: bool,
    lost: float,
) -> Measurement:
    """`got`, `eager`, `reference`: float64, one shape; complex tensors have a last dimension of 2. `dtype`: eager's."""
    finite = eager.isfinite()
    decided = _decided_by_nonfinite(got, eager, reference, dtype)
    misplaced = ~decided & (~got.isfinite() | (~finite & ~reference.isfinite()))
    decided |= misplaced  # the other elements are measured: a misplaced NaN must not hide them
    # Where eager is finite and float64 is not, compare with eager.
    reference = torch.where(finite & ~reference.isfinite(), eager, reference)
    zero = torch.zeros((), dtype=torch.float64)
    error = torch.where(decided, zero, (got - reference).abs())
    eager_error = torch.where(finite, (eager - reference).abs(), zero)
    magnitude = torch.where(decided & ~finite, zero, reference.abs())
    measurable = _component(dtype) != torch.float64 and policy.reference == "float64"
    exact = measurable and may_be_exact and not eager_error.any() and _shows_exactness(reference[finite])
    ulp = ulp_of(magnitude if measurable or not got.numel() else magnitude.amax().expand_as(magnitude), dtype)
    factor, floor = policy.factor_and_floor(dtype)
    unit = torch.zeros_like(ulp)  # what the factor multiplies
    without_sorting = not exact and bool((error <= floor * ulp).all())  # the usual case
    if exact:
        allowed = torch.zeros_like(ulp)
    elif without_sorting:
        allowed = floor * ulp
    else:
        least = torch.as_tensor(sensitivity, dtype=torch.float64)
        unit = torch.maximum(eager_error_at_magnitude(eager_error, magnitude), least)
        allowed = factor * unit + floor * ulp
        allowed = allowed.masked_fill(unit > lost * magnitude, math.inf) if lost < math.inf else allowed
    wrong = misplaced | ~(error <= allowed)  # a NaN is wrong
    buckets = None
    if profiled and got.numel():
        at = magnitude.clamp(min=torch.finfo(dtype).smallest_normal)
        limit = allowed
        if without_sorting:
            limit = allowed + factor * eager_error_up_to_bucket(eager_error, at, NEIGHBOURS)
        buckets = buckets_of(error.masked_fill(decided, torch.nan), eager_error, limit, at, ulp)
    if misplaced.any():
        return Measurement(
            got.numel(), wrong, _first(misplaced), exact=False, error=math.inf, rule=MISPLACED, buckets=buckets
        )
    if not got.numel():
        return Measurement(0, wrong, (), exact=exact)
    index = _largest(torch.where(wrong, (error - allowed) / ulp, -torch.inf) if wrong.any() else error / allowed)
    return Measurement(
        got.numel(),
        wrong,
        index,
        exact=exact,
        error=float(error[index] / ulp[index]),
        eager_error=float(eager_error[index] / ulp[index]),
        allowed=float(allowed[index] / ulp[index]),
        rule=_EQUALS_FLOAT64 if exact else "" if policy.limit is None else _EXCESS.format(policy.limit),
        factor=_needed_factor((error - floor * ulp)[wrong], unit[wrong]) if policy.limit is None else 0.0,
        buckets=buckets,
    )


def lost_share(dtype: torch.dtype) -> float:
    """The share of a value that eager may lose where it is judged with values far from zero."""
    info = torch.finfo(dtype)
    return info.eps * (_LOST if info.bits > 16 or dtype.is_complex else _LOST_IN_16_BITS)


def _needed_factor(excess: torch.Tensor, unit: torch.Tensor) -> float:
    """The least factor with which all wrong elements pass; 0 if none helps. Float64 of one shape, of wrong elements.

    `excess`: the error beyond the floor. `unit`: what the factor multiplies.
    """
    if not excess.numel() or not (unit > 0).all():
        return 0.0
    needed = float((excess / unit).amax())
    return needed if math.isfinite(needed) else 0.0


def _shows_exactness(values: torch.Tensor) -> bool:
    """Whether a function that gives these values, rounded right, computes exactly. `values`: float64, finite."""
    if values.numel() < NEIGHBOURS_EXACT:
        return False
    return bool((values == values.round()).all()) or values.abs().unique().numel() >= NEIGHBOURS_EXACT


def _decided_by_nonfinite(
    got: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Where a NaN or an infinity decides that an element passes, and there is no distance to measure.

    Where eager is NaN or infinite, compiled may be what eager is, or what float64 is, rounded to `dtype`. Where these
    two are not the same, a rounding decides, as of 0 or 1e-9 times infinity: any NaN or infinity will do. Where float64
    is finite there (eager has overflowed on the way, as float16 does early), compiled may overflow too. Where eager is
    finite, compiled may be infinite only if float64 is within NEAR_MAX ulp of overflowing, with the same sign.

    `got`, `eager`, `reference`: float64, one shape. Returns bool of that shape.
    """
    info = torch.finfo(dtype)
    finite, infinite = eager.isfinite(), ~got.isfinite()
    rounded = reference.to(_component(dtype)).to(torch.float64)
    as_eager, as_reference = _equal_or_both_nan(got, eager), _equal_or_both_nan(got, rounded)
    near = got.isinf() & reference.isfinite() & (reference.abs() > info.max * (1 - NEAR_MAX * info.eps))
    near &= got.sign() == reference.sign()
    by_rounding = infinite & ~_equal_or_both_nan(eager, rounded)
    return torch.where(finite, near, as_eager | (infinite & as_reference) | by_rounding)


def _equal_or_both_nan(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def ulp_of(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance between neighbouring numbers of `dtype` at these magnitudes.

    `magnitude`: float64, finite, not negative. Returns float64 of the same shape.
    """
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(magnitude.clamp(min=info.smallest_normal))
    return info.eps * torch.pow(2.0, (exponent - 1).double())


def eager_error_at_magnitude(error: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """For each element, the largest error of all elements of no greater magnitude, and of at least NEIGHBOURS elements.

    `error`, `magnitude`: float64, one shape. Returns float64 of that shape.
    """
    order = magnitude.flatten().argsort()
    largest = error.flatten()[order].cummax(0).values
    largest[:NEIGHBOURS] = largest[:NEIGHBOURS].amax()
    return torch.empty_like(largest).scatter_(0, order, largest).view_as(error)


def bits_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether all bits are equal: fast, and nearly always enough. `a`, `b`: tensors of one shape and dtype.

    False also where the bits cannot be compared quickly.
    """
    as_integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(a.element_size())
    if as_integers is None or a.is_conj() or b.is_conj() or a.is_neg() or b.is_neg():
        return False
    return torch.equal(a.detach().view(as_integers), b.detach().view(as_integers))


def _unequal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where elements differ: bool, in the shape of `a` and `b`. A NaN equals a NaN; 0 and -0 differ."""
    if bits_equal(a, b):
        return torch.zeros(a.shape, dtype=torch.bool)
    if a.is_complex():
        a, b = (torch.view_as_real(t.resolve_conj()) for t in (a, b))
        return _unequal(a, b).any(-1)
    floating = a.dtype.is_floating_point
    if floating:  # the conversion is exact, and the small dtypes lack operations
        a, b = a.double(), b.double()
    differ = a != b
    if floating:
        differ = (differ & ~(a.isnan() & b.isnan())) | ((a == 0) & (torch.signbit(a) != torch.signbit(b)))
    return differ


def _component(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the real and the imaginary part; a real dtype itself."""
    return dtype.to_real() if dtype.is_complex else dtype


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    """The index of the first true element, or ()."""
    return _largest(mask.to(torch.uint8)) if bool(mask.any()) else ()


def _largest(values: torch.Tensor) -> tuple[int, ...]:
    """The index of the largest of at least one value."""
    return tuple(int(i) for i in torch.unravel_index(values.argmax(), values.shape))
