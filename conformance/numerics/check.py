"""Checks that a compiled function agrees with eager on the same device. Float64 on the CPU measures the error of both.

`check_numerics` checks a case and its compiled function. `assert_agrees_with_eager` checks a function that is not
compiled: a reference or a decomposition. Both compare values, dtype, shape, strides, storage offset, requires_grad,
container types, shared storage, changed inputs and gradients. `check_numerics` makes several calls: two with different
values, calls with other sizes under dynamic shapes, and calls with special values. The code that the first call
compiled must serve all of them.

tolerance.py says how far a value may be from float64, cases/numerics_policy.py what a case may declare, and
docs/numerics.md describes the whole check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from conformance.capture.observers.recompiles import compiled_frames
from conformance.cases import call_modes, special_values
from conformance.cases.case import resized_arguments
from conformance.cases.numerics_policy import Policy
from conformance.numerics import messages
from conformance.numerics.comparison import CallComparison, Comparison, NumericsError
from conformance.numerics.outcome import Arguments

if TYPE_CHECKING:
    from conformance.cases.case import Case

__all__ = ["Comparison", "NumericsError", "assert_agrees_with_eager", "check_numerics"]

#: One ordinary call for each seed. The second call finds constants that were baked into the code.
SEEDS = (0, 1)
#: Further calls under dynamic shapes: the name of the call, and the function that changes each size above 1.
OTHER_SIZES: dict[str, Callable[[int], int]] = {
    "sizes + 1": lambda size: size + 1,
    "sizes × 2 - 1": lambda size: size * 2 - 1,
}
#: The message shows this many disagreements of each further call.
SHOWN_PER_CALL = 2


@dataclass(frozen=True)
class Call:
    """One call of the compiled function.

    `kind`: "ordinary", "sizes" or "special". `name`: the seed, the sizes, or the group of special values.
    """

    kind: str
    name: str
    title: str
    arguments: Mapping[str, Any]


def calls(case: Case, policy: Policy) -> Iterator[Call]:
    """All calls of the numerics check of a case, in order. Builds the arguments of a call when it is reached."""
    for seed in SEEDS:
        title = "first call" if seed == SEEDS[0] else "second call, with other values"
        yield Call("ordinary", str(seed), title, case.build(seed))
    if case.dynamic and "sizes" not in policy.without:
        for name, change in OTHER_SIZES.items():
            if (arguments := resized_arguments(case, change)) is not None:
                yield Call("sizes", name, f"other sizes ({name})", arguments)
    for special in special_values.calls(case, policy.without, policy.branch):
        yield Call("special", special.group, special.title, special.arguments)


def check_numerics(
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    target: str = "",
    run_options: str = "",
    *,
    already_called: bool = False,
) -> Comparison:
    """Compares `compiled`, the compiled `case.fn`, with eager on `device` and with float64 on the CPU.

    `target`: name of the target, which selects what the case declares. `run_options`: pytest options of this run, for
    the command that reproduces a failure. `already_called`: `compiled` was called before, with other values; the code
    of that call must serve the first call here too.

    Passes arguments by name. Passes on every exception of compiling, also from a backward.
    Raises NumericsError where results disagree, PolicyError for a malformed `case.numerics`. A disagreement of an
    ordinary call is raised at once. Those of further calls (other sizes, special values) are raised together.
    """
    policy = Policy.for_case(case, target, torch.device(device).type)
    comparison = Comparison()
    reproduction = messages.reproduction(case, target, run_options)
    further: dict[tuple[str, str], list[str]] = {}
    for call in calls(case, policy):
        before = compiled_frames()
        with call_modes.without_tf32(device):
            disagreements = _disagreements(case, compiled, device, policy, comparison, call)
        recompiled = compiled_frames() - before
        may_compile = call.title == "first call" and not already_called
        if recompiled > policy.recompiles and not may_compile and not policy.raises:
            disagreements.append(messages.recompilation(recompiled, already_called=already_called))
        if disagreements and call.kind == "ordinary":
            heading = messages.Heading(f"{case.id}, {call.title}", "compiled", reproduction)
            raise NumericsError(messages.failure_message(heading, disagreements))
        if disagreements:
            further[call.kind, call.name] = disagreements
        if policy.raises:
            break
    if further:
        raise NumericsError(_message_of_further_calls(further, case, reproduction))
    return comparison


def _disagreements(
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    policy: Policy,
    comparison: Comparison,
    call: Call,
) -> list[str]:
    call_comparison = CallComparison(
        case.fn,
        Arguments(kwargs=dict(call.arguments)),
        device,
        policy,
        f"{case.id}/{call.name}",
        comparison,
        call.title,
        mode=case.mode,
        special=call.kind == "special",
    )
    if call.kind == "sizes" and (error := call_comparison.eager_error()):
        comparison.notes.append(f"{call.title}: skipped, because eager raises {error}")
        return []
    return call_comparison.disagreements(compiled)


def _message_of_further_calls(further: Mapping[tuple[str, str], list[str]], case: Case, reproduction: str) -> str:
    """One message for all further calls. Its first line names each call, so that a known failure excuses no other."""
    kinds = {"sizes": "other sizes", "special": "special values"}
    titles = [
        f"{title} ({', '.join(name for other, name in further if other == kind)})"
        for kind, title in kinds.items()
        if any(other == kind for other, _ in further)
    ]
    lines = []
    for (_, name), disagreements in further.items():
        lines += [f"[{name}] {disagreement}" for disagreement in disagreements[:SHOWN_PER_CALL]]
        if len(disagreements) > SHOWN_PER_CALL:
            lines.append(f"[{name}] … and {len(disagreements) - SHOWN_PER_CALL} more")
    heading = messages.Heading(f"{case.id}, {' and '.join(titles)}", "compiled", reproduction)
    return messages.failure_message(heading, lines, shown=len(lines))


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
    disagreements = call_comparison.disagreements(candidate)
    if disagreements:
        heading = messages.Heading(title, "candidate", "")
        raise NumericsError(messages.failure_message(heading, disagreements))
    return comparison
