"""Audit of opt-outs: whether each opt-out of a case excuses anything. `pytest --audit` runs it.

Each opt-out is dropped alone; the others hold. The calls that it concerns are made, and their problems are what it
excuses:

    without     a group of special values: the calls of the group; for `ties` also those of `edges`, which then have -0;
                for `huge` also those of `full_range`, which then have floating numbers.
                "sizes": the calls with other sizes. Cotangents: that call. A kind of other inputs: its compiles. An
                input: all calls with special values
    factor      all calls, with the policy's factor: the problems of the rule "values"
    reference   all calls, with float64
    recompiles  the calls that compiled again in the ordinary check
    fill        the tensor, if it was one constant in the ordinary check

Those that excuse nothing alone are then dropped together: two of them may excuse the same problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from conformance.cases import other_inputs, special_values
from conformance.cases.opt_outs import OptOut, opt_outs
from conformance.cases.tolerance_policy import COTANGENT_CALLS, GRAPHS, OMISSIBLE, Policy
from conformance.numerics.problem import SIZE_CALLS, Problem

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case
    from conformance.numerics.check import Call, Comparison, Observed, Others

#: Groups of special values whose calls have fewer or other values with an opt-out from another group.
_SHARED = {"ties": {"edges"}, "huge": {"full_range"}}
#: Keys of opt-outs that are judged by calls.
_OF_CALLS = ("without", "factor", "reference")


@dataclass(frozen=True)
class Judgement:
    """What one opt-out of a case on a target excuses.

    `problems`: those that occur without it. `not_judged`: why nobody knows; "" if it was judged.
    """

    opt_out: OptOut
    problems: Sequence[Problem] = ()
    not_judged: str = ""

    def to_json(self) -> dict[str, Any]:
        """As Judgement.from_json takes it."""
        problems = [problem.to_json() for problem in self.problems]
        return {"opt_out": self.opt_out.to_json(), "problems": problems, "not_judged": self.not_judged}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Judgement:
        problems = [Problem.from_json(problem) for problem in data["problems"]]
        return cls(OptOut(**data["opt_out"]), problems, data["not_judged"])


@dataclass
class Audit:
    """Collects the judgements of one item. Give it to `check_and_audit`."""

    judgements: list[Judgement] = field(default_factory=list)


def check_and_audit(
    audit: Audit,
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    target: str,
    *,
    observed: Observed | None = None,
    already_called: bool = False,
    others: Others | None = None,
) -> Comparison:
    """Does what `check_numerics` does, then judges the opt-outs, also where it raises.

    Other inputs are compiled for the judgements alone, after all calls: Dynamo then forgets the compiled function.
    """
    from conformance.numerics.check import Observed, check_numerics

    observed = observed or Observed()
    try:
        return check_numerics(case, compiled, device, target, already_called=already_called, observed=observed)
    finally:
        audit.judgements += judge(case, compiled, device, target, observed, others)


def judge(
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    target: str,
    observed: Observed,
    others: Others | None = None,
) -> list[Judgement]:
    """Judges all opt-outs of a case on a target, after its numerics were checked. Raises nothing.

    `others`: as for check_numerics. Without it, opt-outs of other inputs are not judged.
    """
    import torch

    from conformance.capture.emulation.errors import NotEmulatedError

    auditor = _Auditor(case, compiled, device, Policy.for_case(case, target, torch.device(device).type), observed)
    judgements = []
    declared = opt_outs(case, target, torch.device(device).type)
    for opt_out in sorted(declared, key=lambda each: each.name in other_inputs.KINDS):
        problems: list[Problem] = []
        not_judged = "" if observed.made_all_calls else "the check of the case itself ended early"
        if opt_out.name == GRAPHS:
            not_judged = "it is about what is compiled, not about values"
        if opt_out.may_never_end:
            not_judged = "its reason says that the case never ends without it"
        if opt_out.name in other_inputs.KINDS and others is None:
            not_judged = "this run does not compile the case with other inputs"
        if not not_judged:
            try:
                problems = auditor.problems(opt_out, others)
            except NotEmulatedError as error:
                not_judged = f"not emulated: {error}"
            except Exception as error:  # noqa: BLE001 - such as memory: one opt-out must not hide what the others excuse
                not_judged = f"{type(error).__name__}: {error}"
        if opt_out.varies and not problems and not not_judged:
            not_judged = "its reason says that the result differs between runs, and in this run it was right"
        judgements.append(Judgement(opt_out, problems, not_judged))
    idle = [each.opt_out for each in judgements if not each.problems and not each.not_judged]
    of_calls = [each for each in idle if each.key in _OF_CALLS and each.name not in other_inputs.KINDS]
    together = auditor.problems_together(of_calls)
    return [replace(each, problems=together.get(each.opt_out, each.problems)) for each in judgements]


@dataclass(frozen=True)
class _Auditor:
    """Makes the calls. `policy`: the declared one. `observed`: by the ordinary check."""

    case: Case
    compiled: Callable[..., Any]
    device: torch.device | str
    policy: Policy
    observed: Observed

    def problems(self, opt_out: OptOut, others: Others | None = None) -> list[Problem]:
        """The problems that occur without the opt-out. Raises what ends a check, such as NotEmulatedError."""
        if opt_out.name in other_inputs.KINDS and others is not None:
            rest = dict.fromkeys({*other_inputs.KINDS} - {opt_out.name}, "not judged now")
            return list(others(self.case, replace(self.policy, without=rest), self.observed.comparison))
        if opt_out.key == "recompiles":
            return list(self._recompilations())
        if opt_out.key == "fill":
            constants = self.observed.comparison.decisiveness.problems({})
            return [problem for problem in constants if problem.tensor == opt_out.name]
        if self.policy.raises:
            return []  # the check makes no call with a result
        if opt_out.key == "without":
            rest = {name: reason for name, reason in self.policy.without.items() if name != opt_out.name}
            return self._problems(replace(self.policy, without=rest), self._concerns(opt_out.name))
        if opt_out.key == "factor":
            found = self._problems(replace(self.policy, factor=None), lambda _: True)
            return [problem for problem in found if problem.rule == "values"]
        return self._problems(replace(self.policy, reference="float64"), lambda _: True)

    @staticmethod
    def _concerns(name: str) -> Callable[[Call], bool]:
        """Whether an entry of `without` concerns a call."""
        if name == "sizes":
            return lambda call: call.kind == "sizes"
        groups = {name} | _SHARED.get(name, set())
        if name in (*special_values.GROUPS, *COTANGENT_CALLS):
            return lambda call: call.name in groups
        return lambda call: call.kind == "special"

    def problems_together(self, idle: Sequence[OptOut]) -> dict[OptOut, list[Problem]]:
        """The problems that occur without several opt-outs each of which alone excuses nothing.

        An example is a large number in two inputs at once: one opt-out leaves out the group, another one an input. A
        group owns the problems of its calls; inputs own the rest of the special values.
        """
        if len(idle) < 2:
            return {}
        keys, names = {each.key for each in idle}, {each.name for each in idle if each.key == "without"}
        policy = replace(
            self.policy,
            without={name: reason for name, reason in self.policy.without.items() if name not in names},
            factor=None if "factor" in keys else self.policy.factor,
            reference="float64" if "reference" in keys else self.policy.reference,
        )
        tests = [self._concerns(name) for name in names]
        everywhere = keys != {"without"}
        try:
            found = self._problems(policy, lambda call: everywhere or any(test(call) for test in tests))
        except Exception:  # noqa: BLE001 - such as memory, or what is not emulated: then each verdict alone counts
            return {}
        owned: dict[OptOut, list[Problem]] = {}
        for problem in found:
            for owner in _owners(problem, idle):
                owned.setdefault(owner, []).append(problem)
        return owned

    def _problems(self, policy: Policy, concerns: Callable[[Call], bool]) -> list[Problem]:
        from conformance.numerics.check import Comparison, NumericsError, calls, check_call, recompilation

        problems = []
        for call in filter(concerns, calls(self.case, policy, self.observed.comparison)):
            try:
                found, raised, recompiled = check_call(
                    self.case, self.compiled, self.device, policy, Comparison(), call
                )
            except NumericsError as error:  # there is no float64 reference
                problems.append(Problem("", "reference", str(error), call.name))
                continue
            problems += found
            if recompiled.frames > policy.recompiles and raised is None:
                problems.append(recompilation(call.name, recompiled, already_called=True))
        return problems

    def _recompilations(self) -> Iterator[Problem]:
        from conformance.numerics.check import recompilation

        for call, recompiled in self.observed.recompiled.items():
            if recompiled.frames:
                yield recompilation(call, recompiled, already_called=True)


def _owners(problem: Problem, idle: Sequence[OptOut]) -> list[OptOut]:
    """The opt-outs that a problem without all of them belongs to."""
    group = "sizes" if problem.call in SIZE_CALLS else problem.call
    named = [each for each in idle if each.key == "without"]
    of_group = [each for each in named if each.name == group or (each.name == "ties" and group == "edges")]
    is_special = group in special_values.GROUPS
    inputs = [each for each in named if is_special and each.name not in OMISSIBLE]
    return of_group or inputs or [each for each in idle if each.key != "without"]
