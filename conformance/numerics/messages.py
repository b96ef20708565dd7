"""Disagreements in words: what differs between two outcomes, and the message that says so."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from conformance.numerics.error_pattern import cluster
from conformance.numerics.tolerance import Measured, identical

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.numerics.outcome import Outcome

NO_REFERENCE = (
    "so the function depends on the dtype and has no float64 reference; the case should say "
    "numerics={'reference': 'eager', 'reason': '…'}"
)

#: More problems than these are counted, not told: the first ones usually cause the others.
TOLD = 5


@dataclass(frozen=True)
class Names:
    title: str
    got: str
    reproduction: str


def message(names: Names, problems: list[str], told: int = TOLD) -> str:
    """The whole message of a failure; of `problems`, the first `told`."""
    told = [*problems[:told], *([f"… and {len(problems) - told} more"] if len(problems) > told else [])]
    text = "\n".join([f"{names.title}: {names.got} disagrees with eager", *told])
    return f"{text}\nto reproduce: {names.reproduction}" if names.reproduction else text


def reproduction(case: Case, target: str, how: str = "") -> str:
    """What to type to see it again. `how`: the options that say how it was run."""
    if command := getattr(case, "command", ""):  # made on the command line: no item of pytest
        return f"{command} --target {target} --numerics"
    file = os.path.relpath(case.file) if case.file.exists() else str(case.file)
    labels = "-".join((*case.labels, *([target] if target else [])))
    options = " ".join(["--checks numerics", *(["--thorough"] if case.combined else []), *([how] if how else [])])
    return f'pytest "{file}::test_{case.name}[{labels}]" {options}'


def name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None) or str(function)
    return name.replace("<locals>.", "")


def of_meta(got: Outcome, eager: Outcome, layout: bool, notes: list[str]) -> Iterator[str]:
    """Containers, and of each output: type, dtype, shape, requires_grad; with `layout` strides, offset, aliasing."""
    if got.structure != eager.structure:
        yield f"result: its structure is {got.structure}, eager's is {eager.structure}"
    for name, wanted in eager.outputs.items():
        found = got.outputs.get(name)
        if isinstance(wanted, torch.Tensor):
            if isinstance(found, torch.Tensor):
                yield from _of_tensor(name, found, wanted, layout, notes)
        elif name in got.outputs and not isinstance(found, torch.Tensor) and not _same_constant(found, wanted):
            yield f"{name}: {found!r}, eager's is {wanted!r}"
    if layout and got.structure == eager.structure:
        for one, other in sorted(got.shared - eager.shared):
            yield f"{one} shares storage with {other}, and in eager it does not"
        for one, other in sorted(eager.shared - got.shared):
            yield f"{one} does not share storage with {other}, and in eager it does"
    for name in sorted(got.spilled - eager.spilled):
        yield f"{name}: the call wrote to the input's storage outside of what the input shows"


def _of_tensor(name: str, found: torch.Tensor, wanted: torch.Tensor, layout: bool, notes: list[str]) -> Iterator[str]:
    for what in ("device", "dtype", "shape", "requires_grad"):
        one, other = getattr(found, what), getattr(wanted, what)
        if one != other:
            yield f"{name}: {what} is {_short(one)}, eager's is {_short(other)}"
    if not layout or found.shape != wanted.shape:
        return
    yield from _of_strides(name, found, wanted, notes)
    if found.storage_offset() != wanted.storage_offset():
        yield f"{name}: storage offset is {found.storage_offset()}, eager's is {wanted.storage_offset()}"


def _of_strides(name: str, found: torch.Tensor, wanted: torch.Tensor, notes: list[str]) -> Iterator[str]:
    if found.stride() == wanted.stride():
        return
    text = f"{name}: strides are {found.stride()}, eager's are {wanted.stride()}, for the shape {tuple(found.shape)}"
    moves = [size > 1 and a != b for size, a, b in zip(found.shape, found.stride(), wanted.stride(), strict=True)]
    if found.numel() and any(moves):
        yield text
    else:
        notes.append(f"{text} (insignificant: only where a size is 0 or 1)")


def of_gradients(got: Outcome, eager: Outcome, notes: list[str]) -> Iterator[str]:
    for name, wanted in eager.gradients.items():
        title = f"gradient of {name}"
        found = got.gradients.get(name)
        if (found is None) != (wanted is None):
            yield (
                f"{title}: none, and eager gives one"
                if found is None
                else f"{title}: there is one, and eager gives none"
            )
        elif wanted is not None:
            for what in ("dtype", "shape"):
                one, other = getattr(found, what), getattr(wanted, what)
                if one != other:
                    yield f"{title}: {what} is {_short(one)}, eager's is {_short(other)}"
            if found.shape == wanted.shape:
                yield from _of_strides(title, found, wanted, notes)


def comparable(got: Outcome, eager: Outcome, name: str) -> bool:
    """Whether there are values to compare, and a cotangent for the one fits the other."""
    one, other = got.outputs.get(name), eager.outputs[name]
    if not isinstance(other, torch.Tensor):
        return not isinstance(one, torch.Tensor)
    return same_kind(one, other) and one.requires_grad == other.requires_grad


def same_kind(one: Any, other: Any) -> bool:
    tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return tensors and one.shape == other.shape and one.dtype == other.dtype


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of one shape and dtype, equal, NaN equal to itself."""
    if not same_kind(one, other):
        return False
    if identical(one, other):
        return True
    differ = one != other
    return not bool((differ & ~(one.isnan() & other.isnan())).any())


def of_values(
    title: str,
    measured: Measured,
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor | None,
    inputs: dict[str, torch.Tensor],
) -> str:
    """The worst element of a tensor (cpu), and how many are off."""
    index = measured.index
    share = f"{measured.off} of {measured.total} elements are off{cluster(measured.wrong)}"
    lines = [f"{title} ({_short(got.dtype)}): {share}; the worst at {list(index)}"]
    there = [f"{name} = {said}" for name, t in inputs.items() if (said := _there(t, eager.shape, index))]
    if there:
        lines.append(f"  inputs there  {', '.join(there)}")
    lines.append(f"  got           {_number(got[index])}")
    lines.append(f"  eager         {_number(eager[index])}")
    if reference is not None and not measured.exact:
        lines.append(f"  float64       {_number(reference[index])}")
    if measured.error not in (0.0, float("inf")):
        lines.append(
            f"  error         {measured.error:.3g} ulp, allowed {measured.allowed:.3g} ulp "
            f"(eager's {measured.eager_error:.3g})"
        )
    if measured.why:
        lines.append(f"  rule          {measured.why}")
    return "\n".join(lines)


def _there(tensor: torch.Tensor, shape: torch.Size, index: tuple[int, ...]) -> str:
    """The element of an input that is combined with an element of the result; "" where its shape does not broadcast."""
    try:
        return _number(tensor.expand(shape)[index])
    except RuntimeError:
        return ""


def _number(value: torch.Tensor) -> str:
    return repr(value.item())


def _short(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value).removeprefix("torch.")


def _same_constant(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))
