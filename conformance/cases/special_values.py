"""Special values: what is laid over a case's ordinary inputs in further calls of the same compiled function.

Groups, one call each. Of floating inputs, where nothing else is said:

    nan        NaN here and there, the first or the last element included
    inf        inf and -inf; where an input is summed, first one, then the other
    huge       the largest number of the dtype and its negative, once each: with more of them, whether a sum overflows
               is a matter of its order
    denormals  the smallest and the largest denormal number and their negatives
    edges      ±0, the smallest normal numbers, and where functions often change branch: ±0.5, ±1, 1±ulp, 1.5, ±2,
               ±2.5, ±3, 6, 20; with numerics={"branch": [...]} the values where this one does
    ties       few values, each many times

and of integers `wrap`: the smallest and the largest number and their neighbours, -1, 0, 1. Values outside of an input's
`low` and `high` are left out, NaN with them, and the ends of that range are laid in instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases.inputs import Input, seed_of

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

FLOATING = ("nan", "inf", "huge", "denormals", "edges", "ties")
INTEGER = ("wrap",)
GROUPS = (*FLOATING, *INTEGER)

DESCRIPTIONS = {
    "nan": "NaN",
    "inf": "±inf",
    "huge": "the largest numbers",
    "denormals": "below the smallest normal number",
    "edges": "±0, where branches change",
    "ties": "equal values",
    "wrap": "the ends of the integers",
}

_BRANCHES = (0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 6.0, 20.0)
_TIES = (-1.0, 0.0, 0.5, 1.0)


@dataclass(frozen=True)
class SpecialCall:
    """One further call: the group's name, and arguments that are new with each `build`."""

    group: str
    arguments: dict[str, Any]

    @property
    def title(self) -> str:
        return f"special values ({self.group}: {DESCRIPTIONS[self.group]})"


def calls(case: Case, without: Mapping[str, str], branch: Any) -> Iterator[SpecialCall]:
    """The further calls of a case; none for a group that no input takes part in.

    `without`: names of groups, or of inputs that stay ordinary, to reasons. `branch`: values where the function changes
    branch, for all floating inputs, or a dict of them by input.
    """
    inputs = {name: each for name, each in case.arguments.items() if isinstance(each, Input) and name not in without}
    for group in GROUPS:
        if group in without:
            continue
        arguments = case.build(0)
        changed = [
            _lay(
                group,
                arguments[name],
                _bounds(each, case.choices[name]),
                branch.get(name, ()) if isinstance(branch, Mapping) else branch,
                (position, seed_of(f"{case.id}/{name}/{group}")),
                ties="ties" not in without,
            )
            for position, (name, each) in enumerate(inputs.items())
        ]
        if any(changed):
            yield SpecialCall(group, arguments)


def _bounds(each: Input, choice: Mapping[str, Any]) -> tuple[float | None, float | None]:
    values = dict(each.defaults) | {key: value for key, value in choice.items() if value is not None}
    low, high = values.get("low"), values.get("high")
    if low is None and high is None:
        return None, None
    return (0 if low is None else low), (1 if high is None else high)


def _lay(group, tensor, bounds, branch, place, *, ties: bool) -> bool:
    """Writes the group's values over some of the tensor's; False where it has none for this tensor."""
    import torch

    floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    if not tensor.numel() or tensor.dtype == torch.bool or floating != (group in FLOATING):
        return False
    values = _values(group, tensor.dtype, bounds, branch, signed_zero=ties)
    if not values.numel():
        return False
    shown = unexpanded(tensor.detach())
    if shown.is_complex():
        shown = torch.view_as_real(shown)
    position, seed = place
    generator = torch.Generator().manual_seed(seed)
    flat = shown.reshape(-1)  # a copy where the strides want one
    where = _where(group, flat.numel(), len(values), position, generator)
    if group in ("nan", "inf", "huge", "ties"):
        chosen = torch.arange(len(where)) * len(values) // len(where)  # in runs, so that not every sum meets both signs
        chosen = chosen if group != "ties" else torch.randint(len(values), (len(where),), generator=generator)
    else:
        chosen = torch.arange(len(where)) % len(values)
        chosen = (chosen + seed) % len(values) if len(where) < len(values) else chosen
    flat[where] = values[chosen]
    if flat.data_ptr() != shown.data_ptr():
        shown.copy_(flat.view(shown.shape))
    return True


def unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor with what an expanded dimension repeats shown once."""
    sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    return tensor.as_strided(sizes, tensor.stride())


def _where(group: str, total: int, values: int, position: int, generator: torch.Generator) -> torch.Tensor:
    """Flat indices, the last element (every other input: the first) among them; sorted where values come in runs."""
    import torch

    if group == "ties":
        return torch.arange(total)
    fixed = total - 1 if position % 2 == 0 else 0
    if group in ("denormals", "edges", "wrap"):  # each value once: no ties
        where = torch.randperm(total, generator=generator)[: min(values, total)]
        return torch.cat([where[where != fixed][: min(values, total) - 1], torch.tensor([fixed])])
    count = 1 if group == "huge" else max(1, int(total**0.5) // 2)
    clean = max(1, total // 2)  # the second half is left as it was: not every sum meets one
    where = torch.randperm(clean, generator=generator)[: min(count, clean)]
    return torch.cat([where, torch.tensor([fixed])]).unique()


def _values(group: str, dtype: torch.dtype, bounds: Any, branch: Any, *, signed_zero: bool) -> torch.Tensor:
    import torch

    if group == "wrap":
        return torch.tensor(_integers(torch.iinfo(dtype), bounds), dtype=dtype)
    real = dtype.to_real() if dtype.is_complex else dtype
    info = torch.finfo(real)
    smallest, largest = info.tiny * info.eps, info.tiny * (1 - info.eps)
    following = info.tiny * (1 + info.eps)
    normal = [following, -following, 2 * info.tiny, info.tiny, -info.tiny]
    zeros = [0.0, -0.0] if signed_zero else [0.0]
    found = {
        "nan": [float("nan")],
        "inf": [float("inf"), float("-inf")],
        "huge": [info.max, -info.max],
        "denormals": [smallest, -smallest, largest, -largest],
        "edges": [*zeros, *normal, 1 + info.eps, 1 - info.eps / 2, *_BRANCHES, *branch],
        "ties": [*_TIES, *branch],
    }[group]
    low, high = bounds
    if low is not None:
        found = [value for value in found if low <= value <= high]
        found += [low, high] if group in ("edges", "ties") else []
    return torch.tensor(found, dtype=torch.float64).to(real)


def _integers(info: Any, bounds: Any) -> list[int]:
    low, high = bounds
    if low is not None:  # as torch.randint has it, without the end
        return sorted({int(low), int(high) - 1})
    return sorted({info.min, info.min + 1, max(info.min, -1), 0, 1, info.max - 1, info.max})
