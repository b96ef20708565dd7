"""How far a result may be from float64: the policy, its numbers, and the measurement of one tensor.

An element of the compiled result passes when

    |compiled - float64|  <=  factor × eager's error there  +  floor × ulp(float64)

Eager's error *there* is the largest that eager makes on any element of no greater magnitude, and on no fewer than
NEIGHBOURS elements: an element's own error may be nil by luck, and the largest of the whole tensor would excuse a small
element by the error of a big one. In a tensor of fewer elements than that, where eager may be lucky as a whole,
float64's own answer to inputs changed by an ulp counts as eager's error, where it is larger.

Exact instead, bit for bit: integers, booleans, `exact`. Exact in value: where all of eager's elements (NEIGHBOURS_EXACT
or more) equal float64's, as for whatever only moves or selects data, compiled's must too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

#: dtype → (factor on eager's error, floor in ulp). Results of 16 bits are computed in float32 and rounded once: at most
#: half an ulp more than eager, whose own rounding is half an ulp or more. In float32 the vectorised functions (Sleef,
#: libdevice) are good to 1 or 2 ulp, and a sum in another order differs by a few. Float64 has no wider reference:
#: eager's error cannot be measured, so all is floor, in ulp of the tensor's largest element.
POLICY: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (8.0, 64.0),
    torch.float32: (4.0, 4.0),
    torch.float16: (2.0, 1.0),
    torch.bfloat16: (2.0, 1.0),
}
#: float8 and other small types: as those of 16 bits.
SMALL = (2.0, 1.0)

NEIGHBOURS = 64
NEIGHBOURS_EXACT = 16

_KEYS = ("exact", "factor", "reference", "raises", "reason")


class PolicyError(ValueError):
    """A case's `numerics` that is malformed, or wider than the policy without a reason."""


@dataclass(frozen=True)
class Policy:
    """What one case asks of its numerics; by default nothing but POLICY.

    `exact`: equal to eager bit for bit. `factor`: instead of POLICY's. `reference`: "float64", or "eager" for functions
    that have no meaning in float64. `raises`: name of the exception that eager raises. `reason`: why it is not POLICY.
    """

    exact: bool = False
    factor: float | None = None
    reference: str = "float64"
    raises: str = ""
    reason: str = ""

    @classmethod
    def of(cls, numerics: Mapping[str, Any], where: str = "numerics") -> Policy:
        """Reads a case's `numerics`. Raises PolicyError for what is unknown, malformed or wider without a reason."""
        for key in numerics:
            if key not in _KEYS:
                raise PolicyError(f"{where}: numerics has the key {key!r}; known are {', '.join(_KEYS)}")
        for key, kind in {"exact": bool, "reference": str, "raises": str, "reason": str}.items():
            if not isinstance(numerics.get(key, kind()), kind):
                raise PolicyError(f"{where}: numerics[{key!r}] is a {kind.__name__}, not {numerics[key]!r}")
        policy = cls(**numerics)
        if policy.reference not in ("float64", "eager"):
            raise PolicyError(f"{where}: numerics['reference'] is 'float64' or 'eager', not {policy.reference!r}")
        if policy.factor is not None:
            if isinstance(policy.factor, bool) or not isinstance(policy.factor, (int, float)) or not policy.factor >= 0:
                raise PolicyError(f"{where}: numerics['factor'] is a number of 0 or more, not {policy.factor!r}")
            if policy.exact:
                raise PolicyError(f"{where}: numerics has both exact and a factor; what is exact has no factor")
            if policy.factor > min(factor for factor, _ in POLICY.values()) and not policy.reason.strip():
                raise PolicyError(
                    f"{where}: numerics['factor'] = {policy.factor:g} is wider than the policy; "
                    "say why: {'factor': …, 'reason': '…'}"
                )
        if policy.reference == "eager" and not policy.reason.strip():
            raise PolicyError(f"{where}: numerics['reference'] = 'eager' gives up float64; say why in 'reason'")
        return policy

    def numbers(self, dtype: torch.dtype) -> tuple[float, float]:
        factor, floor = POLICY.get(_component(dtype), SMALL)
        return (factor if self.factor is None else float(self.factor)), floor


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
    got: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor | None, policy: Policy, sensitivity: float = 0.0
) -> Measured:
    """Compares values: cpu tensors of one shape; `got` and `eager` of one dtype.

    `reference` (float64 or complex128) is used for floating dtypes; None takes eager's values. `sensitivity`: eager's
    error is taken to be no less.
    """
    if policy.exact or not (eager.dtype.is_floating_point or eager.dtype.is_complex):
        wrong = _bits_differ(got, eager)
        return Measured(got.numel(), wrong, _first(wrong), True, why="must be equal bit for bit")
    if policy.numbers(eager.dtype)[0] >= 1 and identical(got, eager):  # no further off than eager: the usual case
        return Measured(got.numel(), torch.zeros(got.shape, dtype=torch.bool), None, False, why="eager's own bits")
    wide = torch.complex128 if eager.dtype.is_complex else torch.float64
    reference = eager.to(wide) if reference is None else reference.to(wide)
    parts = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (got, eager, reference)]
    values, eager_values, reference = (t.resolve_neg().to(torch.float64) for t in parts)
    result = _measure_real(values, eager_values, reference, eager.dtype, policy, sensitivity)
    if not eager.dtype.is_complex:
        return result
    wrong = result.wrong.any(-1)
    index = None if result.index is None else result.index[:-1]
    return Measured(
        got.numel(), wrong, index, result.exact, result.error, result.eager_error, result.allowed, result.why
    )


def _measure_real(
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor,
    dtype: torch.dtype,
    policy: Policy,
    sensitivity: float,
) -> Measured:
    finite = eager.isfinite()
    misplaced = torch.where(finite, ~got.isfinite(), (got != eager) & ~(got.isnan() & eager.isnan()))
    if misplaced.any():
        return Measured(
            got.numel(), misplaced, _first(misplaced), False, float("inf"), why="NaN and inf must be where eager's are"
        )
    # Where eager is finite and float64 is not, eager is what there is to compare with; what is not finite was compared.
    reference = torch.where(finite & reference.isfinite(), reference, eager)
    zero = torch.zeros((), dtype=torch.float64)
    error = torch.where(finite, (got - reference).abs(), zero)
    eager_error = torch.where(finite, (eager - reference).abs(), zero)
    magnitude = torch.where(finite, reference.abs(), zero)
    measurable = _component(dtype) != torch.float64 and policy.reference == "float64"
    exact = measurable and got.numel() >= NEIGHBOURS_EXACT and not eager_error.any()
    ulp = ulp_of(magnitude if measurable or not got.numel() else magnitude.amax().expand_as(magnitude), dtype)
    factor, floor = policy.numbers(dtype)
    if exact:
        allowed = torch.zeros_like(ulp)
    elif bool((error <= floor * ulp).all()):
        allowed = floor * ulp  # the usual way: no need to sort
    else:
        allowed = factor * _eager_error_there(eager_error, magnitude).clamp(min=sensitivity) + floor * ulp
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


def ulp_of(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of `dtype` at these magnitudes (float64, not negative, finite)."""
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(magnitude.clamp(min=info.smallest_normal))
    return info.eps * torch.pow(2.0, (exponent - 1).double())


def _eager_error_there(error: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
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
