"""Checks that a compiled function agrees with eager on the same device. Float64 on the CPU measures the error of both.

`check_numerics` checks a case and its compiled function. `assert_agrees_with_eager` checks a function that is not
compiled: a reference or a decomposition. Both compare values, dtype, shape, strides, storage offset, requires_grad,
container types, shared storage, changed inputs and gradients. `check_numerics` makes several calls: two with different
values, calls with other sizes under dynamic shapes, and calls with special values. The code that the first call
compiled must serve all of them.

measurement.py says how far a value may be from float64, cases/tolerance_policy.py what a case may declare, and
docs/numerics.md describes the whole check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from conformance.capture.call_modes import WITHOUT_GRADIENT
from conformance.capture.observers.dynamo import Compiles, compiles
from conformance.capture.tf32 import without_tf32
from conformance.cases import kept_state, later_calls, other_inputs, run_values, special_values
from conformance.cases.tolerance_policy import COTANGENT_CALLS, Policy
from conformance.numerics import messages
from conformance.numerics.comparison import CallComparison, CandidateError, Comparison, NumericsError
from conformance.numerics.exceptions import raised_problem
from conformance.numerics.outcome import Arguments, ends_the_check
from conformance.numerics.problem import NEXT_CALL, ORDINARY_CALLS, SIZE_CALLS, Problem
from conformance.numerics.random_draws import is_seeded

if TYPE_CHECKING:
    from conformance.cases.case import Case

__all__ = ["Comparison", "NumericsError", "assert_agrees_with_eager", "check_numerics"]

#: Ordinary calls: name → title in messages. The second call finds constants that were baked into the code.
TITLES = dict(zip(ORDINARY_CALLS, ("first call", "second call, with other values"), strict=True))
#: The message shows this many problems of each further call.
SHOWN_PER_CALL = 2

#: Case, policy, comparison → the problems of further compiles.
Others = Callable[["Case", Policy, Comparison], Sequence[Problem]]


@dataclass
class Observed:
    """What a check saw until it ended, also if it raised: for the audit of opt-outs.

    `recompiled`: name of a call → what it compiled again, at most. `made_all_calls`: whether no call ended the check.
    """

    comparison: Comparison = field(default_factory=Comparison)
    recompiled: dict[str, Compiles] = field(default_factory=dict)
    made_all_calls: bool = False


@dataclass(frozen=True)
class Call:
    """One call of the compiled function.

    `kind`: "ordinary", "cotangents", "sizes", "special", "state" or "other inputs". `name`: see Problem.call.
    """

    kind: str
    name: str
    title: str
    arguments: Mapping[str, Any]


def calls(case: Case, policy: Policy, comparison: Comparison) -> Iterator[Call]:
    """All calls of the numerics check of a case, in order. Builds the arguments of a call when it is reached.

    `comparison`: of the calls before. Without a cotangent of at least one dimension, there are no layouts to choose.
    Where a result was the same constant in all of them, further calls show whether that was luck: they have the name of
    the second call.
    """
    for seed, (name, title) in enumerate(TITLES.items()):
        yield Call("ordinary", name, title, case.build(seed))
    for name in COTANGENT_CALLS if comparison.cotangent_dimensions else ():
        if name not in policy.without:
            yield Call("cotangents", name, name, case.build(0))
    for name, arguments in later_calls.calls_with_other_sizes(case, policy):
        yield Call("sizes", name, f"other sizes ({name})", arguments)
    for special in special_values.calls(case, policy.without, policy.branch):
        yield Call("special", special.group, special.title, special.arguments)
    if (kept := kept_state.after_a_call(case)) is not None:
        yield Call("state", NEXT_CALL, "next call, with what a call left in the module", kept)
    for seed in range(len(TITLES), len(TITLES) + case.further_calls):
        if comparison.decisiveness.all_declared(policy.fill):
            break
        yield Call("ordinary", ORDINARY_CALLS[1], f"call {seed + 1}, with other values", case.build(seed))


def check_numerics(
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    target: str = "",
    run_options: str = "",
    *,
    already_called: bool = False,
    observed: Observed | None = None,
    others: Others | None = None,
) -> Comparison:
    """Compares `compiled`, the compiled `case.fn`, with eager on `device` and with float64 on the CPU.

    `target`: name of the target, which selects what the case declares. `run_options`: pytest options of this run, for
    the command that reproduces a failure. `already_called`: `compiled` was called before, with other values; the code
    of that call must serve the first call here too. `observed`: is filled with what the check saw. `others`: gives the
    problems of further compiles, which are made where no ordinary call has a problem.

    Passes arguments by name. Makes all calls, also after one with a problem.
    Raises NumericsError with all problems; PolicyError for a malformed `case.numerics`; what eager raises in an
    ordinary call. If compiled raises in an ordinary call and all problems are exceptions, raises that exception.
    """
    policy = Policy.for_case(case, target, torch.device(device).type)
    observed = observed or Observed()
    comparison = observed.comparison
    reproduction = messages.reproduction(case, target, run_options)
    problems: list[Problem] = []
    raised: list[BaseException] = []
    for call in calls(case, policy, comparison):
        found, error, recompiled = check_call(case, compiled, device, policy, comparison, call)
        may_compile = call.name == ORDINARY_CALLS[0] and not already_called
        if error is not None:
            raised += [error] if call.kind == "ordinary" else []
        elif not may_compile:
            if call.kind != "state":  # other state may need other code
                before = observed.recompiled.get(call.name, recompiled)
                observed.recompiled[call.name] = max(before, recompiled, key=lambda each: each.frames)
            if recompiled.frames > policy.recompiles and not policy.raises and call.kind != "state":
                found.append(recompilation(call.name, recompiled, already_called=already_called))
        problems += found
        if policy.raises:
            break
    observed.made_all_calls = True
    if others is not None and not policy.raises and not any(each.call in ORDINARY_CALLS for each in problems):
        problems += others(case, policy, comparison)
    if not problems and not policy.raises and not _has_every_value(case):
        asks_gradient = bool(case.grad) and case.mode not in WITHOUT_GRADIENT
        undecided = list(comparison.decisiveness.problems(policy.fill, asks_gradient=asks_gradient))
        if run_values.current().seed:  # cases declare what holds for the values of the default seed
            comparison.notes += [problem.text for problem in undecided]
        else:
            problems += undecided
    if raised and all(problem.rule == "raises" for problem in problems):
        raise raised[0]
    if problems:
        most = max((each.frames for each in observed.recompiled.values()), default=0)
        advice = (
            "" if getattr(case, "command", "") else messages.advice(problems, most, case.fn)
        )  # a command has no @case
        raise NumericsError(_message(problems, case, reproduction, advice), problems)
    return comparison


def check_call(
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    policy: Policy,
    comparison: Comparison,
    call: Call,
) -> tuple[list[Problem], BaseException | None, Compiles]:
    """Makes one call. Returns its problems, what compiled raised with ordinary values, and what Dynamo compiled."""
    before = compiles()
    raised: BaseException | None = None
    try:
        with without_tf32(device):
            found = _problems(case, compiled, device, policy, comparison, call)
    except CandidateError as error:
        raised = error.__cause__
        if raised is None or ends_the_check(raised):
            raise raised or error from None
        found = [raised_problem(raised)]
    made = compiles().since(before)
    found = [  # Dynamo compiles no more: the guard that failed this time was recorded before that
        messages.with_reasons(problem, made.reasons()) if problem.rule == "recompiles" else problem for problem in found
    ]
    return [replace(problem, call=call.name) for problem in found], raised, made


def recompilation(call: str, recompiled: Compiles, *, already_called: bool) -> Problem:
    """The problem that a call compiled again, with the guards that failed."""
    problem = messages.recompilation(recompiled.frames, recompiled.reasons(), already_called=already_called)
    return replace(problem, call=call)


def _has_every_value(case: Case) -> bool:
    """Whether inputs have every value of their dtype: then a result may be the same for all of them."""
    return any(each.every_value for each in case.inputs.values())


def call_comparison(
    case: Case, device: torch.device | str, policy: Policy, comparison: Comparison, call: Call
) -> CallComparison:
    """What compares one call of a case."""
    return CallComparison(
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
        same_draws=is_seeded(case),
    )


def _problems(
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    policy: Policy,
    comparison: Comparison,
    call: Call,
) -> list[Problem]:
    compared = call_comparison(case, device, policy, comparison, call)
    if call.name == special_values.OUTSIDE and not (torch.device(device).type == "cpu" and compared.eager_error()):
        return []
    if call.kind in ("sizes", "state") and (error := compared.eager_error()):
        comparison.notes.append(f"{call.title}: skipped, because eager raises {error}")
        return []
    return compared.problems(compiled)


def _message(problems: Sequence[Problem], case: Case, reproduction: str, advice: str) -> str:
    """One message for all calls. Of ordinary calls, it describes the problems of the first that has some."""
    by_call: dict[str, list[Problem]] = {}
    for problem in problems:
        by_call.setdefault(problem.call, []).append(problem)
    first = next((name for name in (*ORDINARY_CALLS, "") if name in by_call), None)
    described = problems if first is None else by_call[first]
    if first is None:
        lines, title = _lines_of_further_calls(by_call), _titles_of_further_calls(by_call)
    else:
        texts, title = [problem.text for problem in by_call.pop(first)], TITLES.get(first, "all calls")
        lines = texts[: messages.SHOWN]
        if len(texts) > messages.SHOWN:
            lines.append(f"… and {len(texts) - messages.SHOWN} more")
        if by_call:
            others = [problem for each in by_call.values() for problem in each]
            fail = "are compiled again" if all(each.rule == "recompiles" for each in others) else "disagree"
            lines.append(f"other calls {fail} too: {', '.join(TITLES.get(name, name) for name in by_call)}")
    factor = run_values.current().factor
    if factor is not None and "'factor'" not in repr(case.numerics) and any(each.rule == "values" for each in problems):
        lines.append(f"the factor is {factor:g}, by the project's conformance_factor")
    heading = messages.Heading(f"{case.id}, {title}", "compiled", reproduction, advice, messages.verdict(described))
    return messages.failure_message(heading, lines, shown=len(lines))


def _titles_of_further_calls(by_call: Mapping[str, Sequence[Problem]]) -> str:
    """`other sizes (sizes + 1) and special values (nan, inf)`."""
    names = {
        "other cotangents": [name for name in by_call if name in COTANGENT_CALLS],
        "other sizes": [name for name in by_call if name in SIZE_CALLS],
        "what a call left in the module": [name for name in by_call if name == NEXT_CALL],
        "special values": [name for name in by_call if name in special_values.GROUPS],
        "other inputs": [name for name in by_call if other_inputs.is_name(name)],
    }
    return " and ".join(f"{title} ({', '.join(each)})" for title, each in names.items() if each)


def _lines_of_further_calls(by_call: Mapping[str, Sequence[Problem]]) -> list[str]:
    lines = []
    for name, problems in by_call.items():
        lines += [f"[{name}] {problem.text}" for problem in problems[:SHOWN_PER_CALL]]
        if len(problems) > SHOWN_PER_CALL:
            lines.append(f"[{name}] … and {len(problems) - SHOWN_PER_CALL} more")
    return lines


def assert_agrees_with_eager(
    candidate: Callable[..., Any],
    eager: Callable[..., Any],
    *inputs: Any,
    grad_outputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
    layout: bool = True,
    device: torch.device | str = "cpu",
    numerics: Mapping[str, Any] | None = None,
    values: str = "ordinary",
    **options: Any,
) -> Comparison:
    """Compares an uncompiled reference or decomposition with an eager function and with float64.

        assert_agrees_with_eager(
            decomposition(aten.smooth_l1_loss.default), F.smooth_l1_loss, x, y, reduction="sum"
        )

    Uses the policy of `check_numerics`. Calls both functions with copies of `inputs` and `options`. Compares the
    gradients of inputs that require them. `grad_outputs`: cotangents instead of random ones, one for each output that
    requires a gradient, with its shape and dtype. `layout=False` does not compare strides, storage offsets and shared
    storage. `numerics`: as in @case. `values`: "ordinary", or the group of special values that `inputs` contain; with
    special values, an exception of eager is expected of the candidate too.
    Raises NumericsError, PolicyError, and every exception of the two functions.
    """
    title = f"{messages.qualified_name(candidate)} against {messages.qualified_name(eager)}"
    policy = Policy.from_declaration(numerics or {}, where=title)
    comparison = Comparison()
    arguments = Arguments(inputs, options)
    call_comparison = CallComparison(eager, arguments, device, policy, title, comparison, "call", layout)
    call_comparison.special = values != "ordinary"
    if grad_outputs is not None:
        is_single = isinstance(grad_outputs, torch.Tensor)
        call_comparison.cotangents = [grad_outputs] if is_single else list(grad_outputs)
    try:
        problems = call_comparison.problems(candidate)
    except CandidateError as error:
        raise error.__cause__ or error from None
    if problems:
        heading = messages.Heading(title, "candidate", "")
        raise NumericsError(messages.failure_message(heading, [problem.text for problem in problems]), problems)
    return comparison
