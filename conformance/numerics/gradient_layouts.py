"""Layouts of gradients: which strides eager gives a gradient, by the layout of the cotangents.

Autograd promises no layout: eager often stores a gradient as its cotangent is stored. A user's loss may give a
cotangent that is contiguous, or one that is stored like the result. Where eager itself then gives other strides, either
is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from conformance.numerics.outcome import Outcome
from conformance.numerics.problem import Problem


def without_layouts_of_eager(
    problems: Sequence[Problem],
    got: Outcome,
    call_eager: Callable[[], Outcome],
    cotangents: Mapping[str, torch.Tensor],
    notes: list[str],
) -> list[Problem]:
    """The problems without strides that eager gives too, for cotangents stored like the results.

    `cotangents`: those of the call, contiguous. Appends what is left out to `notes`. Calls eager only if it may matter.
    """
    if not any(each.rule == "strides" for each in problems):
        return list(problems)
    eager = call_eager()
    alike = {name: _stored_like(eager.outputs[name], each) for name, each in cotangents.items()}
    if all(alike[name].stride() == each.stride() for name, each in cotangents.items()):
        return list(problems)
    eager.backward(alike)
    strides = {f"gradient of {name}": each.stride() for name, each in eager.gradients.items() if each is not None}
    found = {f"gradient of {name}": each.stride() for name, each in got.gradients.items() if each is not None}
    kept = []
    for each in problems:
        if each.rule == "strides" and found[each.tensor] == strides.get(each.tensor):
            notes.append(
                f"{each.text} (either is right: eager has the same for a cotangent that is stored like the result)"
            )
        else:
            kept.append(each)
    return kept


def _stored_like(output: torch.Tensor, cotangent: torch.Tensor) -> torch.Tensor:
    """A copy of the cotangent with the layout of the output, or a dense one where elements of the output overlap."""
    return torch.empty_like(output, device="cpu", requires_grad=False).copy_(cotangent)
