"""What the results of a case's calls may be, as data: for a script that checks them without this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from conformance.cases.case import Case
from conformance.cases.tolerance_policy import Policy
from conformance.numerics import messages
from conformance.numerics.check import Call, calls
from conformance.numerics.comparison import CallComparison, Comparison
from conformance.numerics.cotangents import EXPANDED
from conformance.numerics.outcome import Arguments, Outcome
from conformance.numerics.problem import ORDINARY_CALLS, Problem

#: Part of an outcome → the beginning and the end of the names of its tensors in problems.
_PARTS = {"gradients": ("gradient of ", ""), "inputs": ("", " after the call"), "outputs": ("", "")}


def failing_calls(case: Case, target: str, device: str, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """The first call, which compiles, and the calls with problems, as dicts that torch.save writes.

    Where a call compiles again, the calls before the last failing one too: they decide which code it gets. Otherwise
    they change nothing.

    `title`: of the call. `inputs`: name → CPU tensor. `cotangents`: output → CPU tensor. `eager raises`: whether eager
    does. `failed`: the problems, as (tensor, rule). `limits`: name of a tensor with wrong values → what `limit`
    returns.
    Recompiles are not among them. Calls eager on `device`. Raises what eager raises with ordinary values.
    """
    policy = Policy.for_case(case, target, torch.device(device).type)
    comparison = Comparison()
    shown = [problem for problem in problems if problem.rule != "recompiles"]
    missing = {problem.call for problem in shown} | {ORDINARY_CALLS[0]}
    keeps_all = policy.recompiles > 0 or len(shown) < len(problems)
    found = []
    for call in calls(case, policy, comparison):
        fails = call.name in missing
        # Ordinary calls are made in any case: they say which cotangents there are.
        if fails or keeps_all or call.name in ORDINARY_CALLS:
            limits = _CallLimits(case, call, device, policy, comparison)
            if call.kind in ("sizes", "state") and limits.eager_error():
                continue
            made = limits.record(shown)
            if fails or keeps_all:
                found.append(made)
        missing.discard(call.name)
        if not missing:
            break
    return found


def limit(
    eager: torch.Tensor,
    reference: torch.Tensor | None,
    policy: Policy,
    sensitivity: torch.Tensor | float,
    *,
    may_be_exact: bool,
) -> dict[str, Any]:
    """How far the values of a tensor may be from float64. The arguments: see measurement.measure.

    `exact`: not at all from eager. `expected`: float64 or complex128, or None for eager's values. `factor`, `floor`,
    `sensitivity`: see measurement.py. `may be exact`: where eager equals float64, compiled must. `one ulp`: that of the
    largest element counts for all. `undecided`, which is added where not all must be exact: see random_rounding.py.
    """
    floating = eager.dtype.is_floating_point or eager.dtype.is_complex
    factor, floor = policy.factor_and_floor(eager.dtype) if floating else (0.0, 0.0)
    measurable = eager.dtype not in (torch.float64, torch.complex128) and policy.reference == "float64"
    return {
        "exact": policy.exact or not floating,
        "expected": reference if floating and not policy.exact else None,
        "sensitivity": sensitivity,
        "factor": factor,
        "floor": floor,
        "may be exact": measurable and may_be_exact,
        "one ulp": not measurable,
    }


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
        except Exception:  # eager may refuse special values, with any type of exception
            if not self.special and not self.policy.raises:
                raise
            eager = None
        cotangents = self._cotangents_for(eager) if eager is not None else {}
        limits: dict[str, Any] = {}
        wrong = [problem.tensor for problem in mine if problem.rule == "values"]
        if eager is not None and wrong:
            eager.backward(cotangents)
            reference = self.reference(cotangents)
            limits = {title: self._limit(title, eager, reference) for title in wrong}
        return {
            "title": self.title,
            "inputs": self.arguments.tensors(),
            "cotangents": cotangents,
            "eager raises": eager is None,
            "failed": [(problem.tensor, problem.rule) for problem in mine],
            "limits": limits,
        }

    def _limit(self, title: str, eager: Outcome, reference: Outcome | None) -> dict[str, Any]:
        """The limit of the tensor with this name in problems."""
        part = next(each for each, (start, end) in _PARTS.items() if title.startswith(start) and title.endswith(end))
        name = title.removeprefix(_PARTS[part][0]).removesuffix(_PARTS[part][1])
        tensor = getattr(eager, part)[name].detach().cpu()
        before = self.arguments.tensors()
        unchanged = part == "inputs" and name in before and messages.same_values(tensor, before[name].detach())
        policy = Policy(exact=True) if unchanged else self.policy.for_tensor(title)
        wide = getattr(reference, part).get(name) if reference is not None else None
        wide = wide.detach().cpu() if isinstance(wide, torch.Tensor) and wide.shape == tensor.shape else None
        floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        sensitivity: torch.Tensor | float = 0.0
        if floating and wide is not None and policy.moves_inputs:
            sensitivity = self.sensitivity(part, name, wide)
        may_be_exact = not self.special and self.cotangent_layout != EXPANDED
        found = self.doubt(tensor, part, name, wide) if not policy.exact else None
        if found is not None and policy.moves_inputs:
            sensitivity = found.spread.maximum(torch.as_tensor(sensitivity, dtype=torch.float64))
        made = limit(tensor, wide, policy, sensitivity, may_be_exact=may_be_exact)
        return made if found is None else {**made, "undecided": found.undecided}
