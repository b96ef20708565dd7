"""What the results of a case's calls may be, as data: for a script that checks them without this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from conformance.cases.case import Case
from conformance.cases.numerics_policy import Policy
from conformance.numerics import messages
from conformance.numerics.check import Call, calls
from conformance.numerics.comparison import CallComparison, Comparison
from conformance.numerics.cotangents import EXPANDED
from conformance.numerics.outcome import Arguments, Outcome
from conformance.numerics.problem import ORDINARY_CALLS, Problem
from conformance.numerics.tolerance import NEIGHBOURS

#: Part of an outcome → the beginning and the end of the names of its tensors in problems.
_PARTS = {"gradients": ("gradient of ", ""), "inputs": ("", " after the call"), "outputs": ("", "")}


def failing_calls(case: Case, target: str, device: str, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """The first call, which compiles, and the calls with problems, as dicts that torch.save writes.

    `title`: of the call. `inputs`: name → CPU tensor. `cotangents`: output → CPU tensor. `failed`: the problems, as
    (tensor, rule). `limits`: name of a tensor with wrong values → what `limit` returns.
    Calls eager on `device`. Raises what eager raises with ordinary values.
    """
    policy = Policy.for_case(case, target, torch.device(device).type)
    comparison = Comparison()
    failing = {problem.call for problem in problems} | {ORDINARY_CALLS[0]}
    found = []
    for call in calls(case, policy, comparison):
        if call.name in failing or call.name in ORDINARY_CALLS:
            made = _CallLimits(case, call, device, policy, comparison).record(problems)
            if call.name in failing:
                found.append(made)
        if failing == {each["call"] for each in found}:
            break
    return found


class _CallLimits(CallComparison):
    """One call of eager, and the limits of its results."""

    def __init__(self, case: Case, call: Call, device: str, policy: Policy, comparison: Comparison) -> None:
        super().__init__(
            case.fn,
            Arguments(kwargs=dict(call.arguments)),
            device,
            policy,
            case.id,
            comparison,
            call.title,
            mode=case.mode,
            special=call.kind == "special",
            cotangent_layout=call.name if call.kind == "cotangents" else "",
            call=call.name,
        )

    def record(self, problems: Iterable[Problem]) -> dict[str, Any]:
        """The call as failing_calls returns it."""
        mine = [problem for problem in problems if problem.call == self.call]
        try:
            eager = self._call(self.eager)
        except Exception:
            if not self.special and not self.policy.raises:
                raise
            eager = None
        cotangents = self._cotangents_for(eager) if eager is not None else {}
        limits: dict[str, Any] = {}
        wrong = [problem.tensor for problem in mine if problem.rule == "values"]
        if eager is not None and wrong:
            eager.backward(cotangents)
            reference = self._reference(cotangents)
            limits = {title: self._limit(title, eager, reference) for title in wrong}
        return {
            "call": self.call,
            "title": self.title,
            "inputs": self.arguments.tensors(),
            "cotangents": cotangents,
            "failed": [(problem.tensor, problem.rule) for problem in mine],
            "limits": limits,
        }

    def _limit(self, title: str, eager: Outcome, reference: Outcome | None) -> dict[str, Any]:
        """How far the values of a tensor may be from float64.

        `exact`: not at all from eager. `expected`: float64 or complex128, or None for eager's values. `factor`,
        `floor`, `sensitivity`: see tolerance.py. `may be exact`: where eager equals float64, compiled must. `one ulp`:
        that of the largest element counts for all.
        """
        part = next(each for each, (start, end) in _PARTS.items() if title.startswith(start) and title.endswith(end))
        name = title.removeprefix(_PARTS[part][0]).removesuffix(_PARTS[part][1])
        tensor = getattr(eager, part)[name].detach().cpu()
        before = self.arguments.tensors()
        unchanged = part == "inputs" and messages.same_values(tensor, before[name].detach().cpu())
        wide = getattr(reference, part).get(name) if reference is not None else None
        wide = wide.detach().cpu() if isinstance(wide, torch.Tensor) and wide.shape == tensor.shape else None
        floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        sensitivity: torch.Tensor | float = 0.0
        if floating and wide is not None:
            sensitivity = self._sensitivity(part, name, wide)
            if tensor.numel() < NEIGHBOURS and not self.special:
                sensitivity = sensitivity.amax() if tensor.numel() else 0.0
        factor, floor = self.policy.factor_and_floor(tensor.dtype) if floating else (0.0, 0.0)
        measurable = tensor.dtype not in (torch.float64, torch.complex128) and self.policy.reference == "float64"
        return {
            "exact": self.policy.exact or unchanged or not floating,
            "expected": wide if floating else None,
            "sensitivity": sensitivity,
            "factor": factor,
            "floor": floor,
            "may be exact": measurable and not self.special and self.cotangent_layout != EXPANDED,
            "one ulp": not measurable,
        }
