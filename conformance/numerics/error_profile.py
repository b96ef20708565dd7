"""How large the errors of eager and of compiled are at each magnitude of the reference: a picture in the report.

Elements of one tensor whose reference has the same binary exponent are one bucket. Of each bucket, the profile has the
largest error of eager. Of compiled, it has the error that is the largest share of what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

#: A record keeps so many buckets of a tensor. Where there are more, neighbours are joined.
MOST_BUCKETS = 16
#: The call that stands for all ordinary calls: their buckets are joined.
ORDINARY = "ordinary"


class Errors(NamedTuple):
    """Errors of one bucket, in ulp. `compiled` and `allowed` are those of the element that is nearest to its limit."""

    eager: float
    compiled: float
    allowed: float

    def joined(self, other: Errors) -> Errors:
        """The errors of this bucket and of another one, as of one bucket."""
        worst = max(self, other, key=_share)
        return Errors(max(self.eager, other.eager), worst.compiled, worst.allowed)


#: Binary exponent → errors. The exponent e is that of magnitudes from 2**e to 2**(e + 1). Zeros and denormal numbers
#: have the exponent of the smallest normal number.
Buckets = Mapping[int, Errors]


@dataclass
class ErrorProfiles:
    """The errors of one check: (call, tensor) → dtype and buckets. No bucket where compiled gave eager's bits."""

    profiles: dict[tuple[str, str], tuple[str, dict[int, Errors]]] = field(default_factory=dict)

    def add(self, call: str, tensor: str, dtype: torch.dtype, buckets: Buckets) -> None:
        """Adds a tensor of a call. Joins the buckets with those that the tensor has of an earlier call of that name."""
        _, known = self.profiles.setdefault((call, tensor), (str(dtype).removeprefix("torch."), {}))
        for exponent, errors in buckets.items():
            known[exponent] = known[exponent].joined(errors) if exponent in known else errors

    def eager_error(self, tensor: str, reference: torch.Tensor) -> torch.Tensor:
        """For each element, the largest error of eager in ordinary calls, on elements of no greater magnitude.

        `reference`: float64 or complex128. Returns float64 of that shape; 0 where ordinary calls had no such element.
        """
        dtype, buckets = self.profiles.get((ORDINARY, tensor), ("", {}))
        errors = torch.zeros(reference.shape, dtype=torch.float64)
        if not buckets or reference.is_complex():
            return errors
        info = torch.finfo(getattr(torch, dtype))
        exponents = torch.frexp(reference.abs().nan_to_num(0, 0, 0).clamp(min=info.smallest_normal)).exponent - 1
        for exponent in sorted(buckets):
            largest = buckets[exponent].eager * info.eps * 2.0**exponent
            errors = torch.where(exponents >= exponent, errors.clamp(min=largest), errors)
        return errors

    def to_json(self) -> list[dict[str, Any]]:
        """As a run records it: docs/formats.md describes it."""
        return [
            {"call": call, "tensor": tensor, "dtype": dtype, "buckets": _lines(buckets)}
            for (call, tensor), (dtype, buckets) in self.profiles.items()
        ]


def buckets_of(
    error: torch.Tensor, eager_error: torch.Tensor, allowed: torch.Tensor, magnitude: torch.Tensor, ulp: torch.Tensor
) -> dict[int, Errors]:
    """The buckets of one tensor.

    All are float64, of one shape, and not negative. `magnitude`: of the reference; not below the smallest normal number
    of the dtype. `ulp`: the unit of the errors, at each element. An element with a NaN or an infinity in `error`,
    `eager_error` or `magnitude` is left out.
    """
    kept = (error.isfinite() & eager_error.isfinite() & magnitude.isfinite()).flatten()
    error, eager_error, allowed = ((each / ulp).flatten()[kept] for each in (error, eager_error, allowed))
    if not error.numel():
        return {}
    number, first = _bucket_numbers(magnitude.flatten()[kept])

    def largest(values: torch.Tensor, of: torch.Tensor = number) -> torch.Tensor:
        return _largest(values, of, int(number.max()) + 1)

    share = torch.where(error > 0, error / allowed, torch.zeros_like(error))
    nearest = share == largest(share)[number]
    columns = [largest(eager_error), *(largest(each[nearest], number[nearest]) for each in (error, allowed))]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {first + at: Errors(*row) for at, row in enumerate(rows) if row[0] >= 0}


def is_over_limit(buckets: Buckets) -> bool:
    """Whether compiled's error is too large in a bucket. A NaN in the wrong element does not count: it is no error."""
    return any(errors.compiled > errors.allowed for errors in buckets.values())


def eager_error_up_to_bucket(eager_error: torch.Tensor, magnitude: torch.Tensor, least: int) -> torch.Tensor:
    """For each element, the largest error of its bucket and of all lower ones, and of at least `least` elements.

    No less than measurement.eager_error_at_magnitude, and much faster: it does not sort. `eager_error`, `magnitude`:
    float64 of one shape; the magnitudes are finite. Returns float64 of that shape.
    """
    number, _ = _bucket_numbers(magnitude.flatten())
    size = int(number.max()) + 1
    largest = _largest(eager_error.flatten(), number, size).cummax(0).values
    beyond = (number.bincount(minlength=size).cumsum(0) < least).sum().clamp(max=size - 1)
    return largest.clamp(min=largest[beyond])[number].view_as(eager_error)


def _bucket_numbers(magnitude: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The number of each element's bucket, and the exponent of bucket 0."""
    exponents = torch.frexp(magnitude).exponent - 1
    first = int(exponents.min())
    return (exponents - first).long(), first


def _largest(values: torch.Tensor, number: torch.Tensor, size: int) -> torch.Tensor:
    """The largest value of each bucket; -1 for one without elements."""
    return torch.full((size,), -1.0, dtype=torch.float64).scatter_reduce(0, number, values, "amax")


def _share(errors: Errors) -> float:
    if not errors.compiled:
        return 0.0
    return errors.compiled / errors.allowed if errors.allowed else math.inf


def _lines(buckets: Buckets) -> list[str]:
    """At most MOST_BUCKETS lines "first exponent, last exponent, eager, compiled, allowed", by magnitude."""
    exponents = sorted(buckets)
    size = math.ceil(len(exponents) / MOST_BUCKETS) or 1
    return [_line(exponents[start : start + size], buckets) for start in range(0, len(exponents), size)]


def _line(exponents: list[int], buckets: Buckets) -> str:
    errors = buckets[exponents[0]]
    for each in exponents[1:]:
        errors = errors.joined(buckets[each])
    return " ".join([str(exponents[0]), str(exponents[-1]), *(f"{each:.3g}" for each in errors)])
