"""Special values: they replace some elements of a case's inputs in more calls of the same compiled function.

There is one call for each group of values. Groups for floating and complex inputs:

    nan        NaN in some elements, the first or the last one among them
    inf        inf and -inf in some elements. Elements with one sign follow each other, so that a sum can meet one sign
    huge       the largest number of the dtype and its negative, once each. With more of them, it depends on the order
               of a sum whether it overflows
    denormals  the smallest and the largest denormal number, and their negatives
    edges      ±0, the smallest normal numbers, and values where functions often change branch: ±0.5, ±1, 1±ulp, 1.5,
               ±2, ±2.5, ±3, 6, 20; also the values of numerics={"branch": [...]}. Complex numbers on both axes, with
               each sign of the zeros
    ties       few different values, each many times
    negative   every element, with its sign changed where it is positive. In ascending order for inputs at an even
               position, in descending order for the others
    positive   likewise, in the other order
    far        every element, moved by 100 (in 16 bits and less: by 10): a small spread far from zero.
               Not for 64 bits: nothing wider shows how many digits eager loses
    exponents  in half of the elements: numbers of both signs, their exponents spread evenly, up to the fourth root of
               the largest number and down to that of the smallest: products of a few of them do not overflow. Random
               values are nearly all between 0.001 and 4
    full_range the same up to the largest and down to the smallest normal number. Left out with `huge`
    outside    in some elements: values outside of `low` and `high`. Only on a CPU, and only where eager then
               raises: compiled must raise too

Groups for integer inputs:

    wrap       the smallest and the largest number and their neighbours, -1, 0, 1
    negative, positive   as above
    full_range in half of the elements: integers that are uniform over the dtype's whole range

An input with every value of its dtype has them already: it stays as it is. If an input declares `low` and `high`,
values outside that range, and NaN, are not used. The ends of the range are. Parameters and buffers of modules keep
their ordinary values.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases.inputs import Input
from conformance.cases.spread_values import Bounds, spread_exponents, uniform_integers

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

FLOATING = (
    "nan", "inf", "huge", "denormals", "edges", "ties", "negative", "positive", "far", "exponents", "full_range"
)  # fmt: skip
INTEGER = ("wrap", "negative", "positive", "full_range")
#: For floating inputs with `low` and `high`.
OUTSIDE = "outside"
GROUPS = tuple(dict.fromkeys((*FLOATING, *INTEGER, OUTSIDE)))

#: Group → what it holds, for messages.
DESCRIPTIONS = {
    "nan": "NaN",
    "inf": "±inf",
    "huge": "the largest numbers",
    "denormals": "below the smallest normal number",
    "edges": "±0, where branches change",
    "ties": "equal values",
    "negative": "no positive number, sorted",
    "positive": "no negative number, sorted",
    "far": "a small spread far from zero",
    "exponents": "large and small numbers",
    "wrap": "the ends of the integers",
    "full_range": "the dtype's whole range",
    "outside": "outside of low and high",
}

_BRANCHES = (0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 6.0, 20.0)
_TIES = (-1.0, 0.0, 0.5, 1.0)
#: The parts of complex numbers where functions of an angle change branch.
_AXES = (0.0, -0.0, 1.0, -1.0)
#: Groups that change every element of the ordinary values, and how far FAR moves them.
FAR = "far"
MOVED = ("negative", "positive", FAR)
_DISTANCE, _DISTANCE_IN_16_BITS = 100, 10
#: Groups whose values are drawn.
_DRAWN = ("exponents", "full_range")
#: `exponents` has this share of the exponents: numbers up to the fourth root of the largest one.
_SHARE = 0.25


@dataclass(frozen=True)
class SpecialCall:
    """One more call of a case's function: the group's name, and the arguments with its special values."""

    group: str
    arguments: dict[str, Any]

    @property
    def title(self) -> str:
        return f"special values ({self.group}: {DESCRIPTIONS[self.group]})"


def calls(case: Case, without: Mapping[str, str], branch: Any) -> Iterator[SpecialCall]:
    """A call for each group that has values for at least one input.

    `without`: groups that are left out, and inputs that keep their ordinary values → reason. `branch`: values where the
    function changes branch: a list for all floating inputs, or a dict of input → list.
    """
    inputs = {
        name: each
        for name, each in case.inputs.items()
        if each.special_values and not each.every_value and name not in without
    }
    positions = case.positions
    for group in GROUPS if inputs else ():
        if group in without:
            continue
        made = case.make_inputs(0)
        changed = [
            _write_values(
                group,
                made[name],
                _bounds(each, case.choices[name]),
                branch.get(name, ()) if isinstance(branch, Mapping) else branch,
                (positions[name], each.seed(case.choices[name], positions[name], group)),
                without,
            )
            for name, each in inputs.items()
        ]
        if any(changed):
            yield SpecialCall(group, case.assemble(made))


def _bounds(each: Input, choice: Mapping[str, Any]) -> Bounds:
    values = each.values(choice)
    low, high = values.get("low"), values.get("high")
    if low is None and high is None:
        return None, None
    return (0 if low is None else low), (1 if high is None else high)


def _write_values(
    group: str,
    tensor: torch.Tensor,
    bounds: Bounds,
    branch: Sequence[float],
    place: tuple[int, int],
    without: Collection[str],
) -> bool:
    """Writes the group's values into some elements of the tensor. False if the group has none for this tensor.

    `place`: the input's position in the signature, and a seed. They decide which elements. `without`: groups that are
    left out.
    """
    import torch

    floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    if not tensor.numel() or tensor.dtype == torch.bool or group not in ((*FLOATING, OUTSIDE) if floating else INTEGER):
        return False
    if floating and group == "full_range" and "huge" in without:
        return False
    elements = unexpanded(tensor.detach())
    if elements.is_complex():
        elements = torch.view_as_real(elements)
    position, seed = place
    if group in MOVED:
        moved = _moved(group, elements.reshape(-1), bounds, position)
        if moved is not None:
            elements.copy_(moved.view(elements.shape))
        return moved is not None
    generator = torch.Generator().manual_seed(seed)
    if group in _DRAWN:
        count = (elements.numel() + 1) // 2
        share = _SHARE if group == "exponents" else 1.0
        draw = functools.partial(spread_exponents, share=share) if floating else uniform_integers
        values = draw(elements.dtype, bounds, count, generator)
    elif group == OUTSIDE:
        low, high = bounds
        beyond = [] if low is None or high is None else [low - 1, high + 1]
        values = torch.tensor(beyond, dtype=elements.dtype)
    else:
        values = _values(group, elements.dtype, bounds, branch, signed_zero="ties" not in without)
    if not values.numel():
        return False
    flat = elements.reshape(-1)  # a copy if the strides need one
    where = _where(group, flat.numel(), len(values), position, generator)
    if group in ("nan", "inf", "huge", "ties"):
        chosen = torch.arange(len(where)) * len(values) // len(where)  # in runs: not every sum meets both signs
        chosen = chosen if group != "ties" else torch.randint(len(values), (len(where),), generator=generator)
    else:
        chosen = torch.arange(len(where)) % len(values)
        chosen = (chosen + seed) % len(values) if len(where) < len(values) else chosen
    flat[where] = values[chosen]
    if group == "edges" and tensor.is_complex() and bounds == (None, None) and "ties" not in without:
        _write_signed_zeros(flat.view(-1, 2), generator)
    if flat.data_ptr() != elements.data_ptr():
        elements.copy_(flat.view(elements.shape))
    return True


def _write_signed_zeros(pairs: torch.Tensor, generator: torch.Generator) -> None:
    """Writes complex numbers that are 0 or on an axis, with each sign of the zeros, to random places. Each once."""
    import torch

    values = torch.tensor([(x, y) for x in _AXES for y in _AXES if not x * y], dtype=pairs.dtype)
    where = torch.randperm(len(pairs), generator=generator)[: len(values)]
    pairs[where] = values[torch.randperm(len(values), generator=generator)][: len(where)]


def _moved(group: str, flat: torch.Tensor, bounds: Bounds, position: int) -> torch.Tensor | None:
    """The elements as the group has them; None if bounds leave none.

    `flat`: real, of one dimension. `position`: of the input in the signature.
    """
    import torch

    floating, (low, high) = flat.dtype.is_floating_point, bounds
    values = flat.to(torch.float64 if floating else torch.int64)  # the small dtypes lack operations
    if group == FAR:
        distance = _DISTANCE if flat.dtype.itemsize > 2 else _DISTANCE_IN_16_BITS
        # Nothing wider than float64 shows how many digits eager loses.
        return (values + distance).to(flat.dtype) if low is None and flat.dtype != torch.float64 else None
    if group == "negative":
        if not flat.dtype.is_signed or (low is not None and low >= 0):
            return None
        values = -values.abs()
    else:
        if high is not None and high <= 0:
            return None
        values = values.abs() if floating else torch.where(values < 0, -(values + 1), values)
    if low is not None and high is not None:
        values = values.clamp(low, high if floating else high - 1)
    descending = (group == "positive") == (position % 2 == 0)
    return values.sort(descending=descending).values.to(flat.dtype)


def unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor in which an expanded dimension (stride 0) has size 1: every element occurs once."""
    sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    return tensor.as_strided(sizes, tensor.stride())


def _where(group: str, total: int, values: int, position: int, generator: torch.Generator) -> torch.Tensor:
    """Indices of the flat tensor that get a value. Sorted, if equal values must follow each other.

    They include the last element for an even `position`, the first element for an odd one.
    """
    import torch

    if group == "ties":
        return torch.arange(total)
    fixed = total - 1 if position % 2 == 0 else 0
    if group in ("denormals", "edges", "wrap", *_DRAWN):  # each value once
        where = torch.randperm(total, generator=generator)[: min(values, total)]
        return torch.cat([where[where != fixed][: min(values, total) - 1], torch.tensor([fixed])])
    count = 1 if group == "huge" else max(1, int(total**0.5) // 2)
    clean = max(1, total // 2)  # the second half stays ordinary: not every sum meets a special value
    where = torch.randperm(clean, generator=generator)[: min(count, clean)]
    return torch.cat([where, torch.tensor([fixed])]).unique()


def _values(
    group: str, dtype: torch.dtype, bounds: Bounds, branch: Sequence[float], *, signed_zero: bool
) -> torch.Tensor:
    """The group's values, each once, of a real dtype."""
    import torch

    if group == "wrap":
        return torch.tensor(_integers(torch.iinfo(dtype), bounds), dtype=dtype)
    info = torch.finfo(dtype)
    smallest, largest = info.tiny * info.eps, info.tiny * (1 - info.eps)
    following = info.tiny * (1 + info.eps)
    normal = [following, -following, 2 * info.tiny, info.tiny, -info.tiny]
    zeros = [0.0, -0.0] if signed_zero else [0.0]
    values = {
        "nan": [float("nan")],
        "inf": [float("inf"), float("-inf")],
        "huge": [info.max, -info.max],
        "denormals": [smallest, -smallest, largest, -largest],
        "edges": [*zeros, *normal, 1 + info.eps, 1 - info.eps / 2, *_BRANCHES, *branch],
        "ties": [*_TIES, *branch],
    }[group]
    low, high = bounds
    if low is not None and high is not None:
        values = [value for value in values if low <= value <= high]
        values += [low, high] if group in ("edges", "ties") else []
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def _integers(info: torch.iinfo, bounds: Bounds) -> list[int]:
    low, high = bounds
    if low is not None and high is not None:  # `high` itself is outside the range, as in torch.randint
        return sorted({int(low), int(high) - 1})
    return sorted({info.min, info.min + 1, max(info.min, -1), 0, 1, info.max - 1, info.max})
