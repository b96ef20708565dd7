"""Numerics: is a compiled function right? Held to eager on the same device, and both to float64 on the cpu.

`check` does it for a case and its compiled function, `hold` for anything uncompiled: a reference, a decomposition.
Compared are values, dtype, shape, strides, storage offset, requires_grad, container types, which outputs and inputs
share storage, changed inputs, gradients; for two calls with other values, under dynamic shapes for other sizes, and for
special values, all served by what the first call compiled. How far values may be off: tolerance.py. What a case may say
of it: policy.py. The whole of it in prose: docs/numerics.md.
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
from conformance.numerics.comparison import Comparison, Holder, NumericsError
from conformance.numerics.outcome import Arguments

if TYPE_CHECKING:
    from conformance.cases.case import Case

__all__ = ["Comparison", "NumericsError", "check_numerics", "hold"]

#: Inputs are built from these seeds, one call of the compiled function each: what was baked in shows at the second.
SEEDS = (0, 1)
#: Further sizes under dynamic shapes, for each size above 1: names and how they are made.
OTHER_SIZES = {"sizes + 1": lambda size: size + 1, "sizes × 2 - 1": lambda size: size * 2 - 1}
#: Of each further call, so many problems are told.
TOLD = 2


@dataclass(frozen=True)
class Call:
    """One call of the compiled function. `kind`: "ordinary", "sizes" or "special"; `name`: the group or the sizes."""

    kind: str
    name: str
    title: str
    arguments: Mapping[str, Any]


def calls(case: Case, policy: Policy) -> Iterator[Call]:
    """All calls of a case's numerics, in order; the arguments are built when they are asked for."""
    for seed in SEEDS:
        title = "first call" if seed == SEEDS[0] else "second call, with other values"
        yield Call("ordinary", str(seed), title, case.build(seed))
    if case.dynamic and "sizes" not in policy.without:
        for name, change in OTHER_SIZES.items():
            if (arguments := resized_arguments(case, change)) is not None:
                yield Call("sizes", name, f"other sizes ({name})", arguments)
    for each in special_values.calls(case, policy.without, policy.branch):
        yield Call("special", each.group, each.title, each.arguments)


def check_numerics(
    case: Case,
    compiled: Callable[..., Any],
    device: torch.device | str,
    target: str = "",
    how: str = "",
    *,
    called: bool = False,
) -> Comparison:
    """Holds `compiled`, the compiled `case.fn`, to eager on `device` and to float64.

    `target`: its name, for what the case says of it. `how`: options that say how it was run, for the message.
    `called`: it has been, with other values, and what that compiled is to serve the first call too.

    Arguments are passed by name. What compiling raises is passed on as it is, also from a backward.
    Raises NumericsError for a disagreement, PolicyError for a malformed `case.numerics`. Disagreements of further calls
    (other sizes, special values) are told together, after the ordinary ones agree.
    """
    policy = Policy.for_case(case, target, torch.device(device).type)
    comparison = Comparison()
    reproduction = messages.reproduction(case, target, how)
    further: dict[tuple[str, str], list[str]] = {}
    for each in calls(case, policy):
        before = compiled_frames()
        with call_modes.without_tf32(device):
            problems = _problems(case, compiled, device, policy, comparison, each)
        recompiled = compiled_frames() - before
        if (called or each.title != "first call") and recompiled > policy.recompiles and not policy.raises:
            served = "the capture" if called else "the first call"
            problems.append(f"{recompiled} frames were compiled again, where what {served} compiled should have served")
        if problems and each.kind == "ordinary":
            names = messages.Names(f"{case.id}, {each.title}", "compiled", reproduction)
            raise NumericsError(messages.message(names, problems))
        if problems:
            further[each.kind, each.name] = problems
        if policy.raises:
            break
    if further:
        raise NumericsError(_told(further, case, reproduction))
    return comparison


def _problems(case, compiled, device, policy: Policy, comparison: Comparison, each: Call) -> list[str]:
    holder = Holder(
        case.fn,
        Arguments(kwargs=dict(each.arguments)),
        device,
        policy,
        f"{case.id}/{each.name}",
        comparison,
        each.title,
        mode=case.mode,
        special=each.kind == "special",
    )
    if each.kind == "sizes" and (why := holder.unfit()):
        comparison.notes.append(f"{each.title}: not tried, eager raises {why}")
        return []
    return holder.run(compiled)


def _told(further: Mapping[tuple[str, str], list[str]], case: Case, reproduction: str) -> str:
    """One message for all further calls; its first line names each, so that a known failure excuses no other."""
    kinds = {"sizes": "other sizes", "special": "special values"}
    titles = [
        f"{said} ({', '.join(name for other, name in further if other == kind)})"
        for kind, said in kinds.items()
        if any(other == kind for other, _ in further)
    ]
    lines = []
    for (_, name), problems in further.items():
        lines += [f"[{name}] {problem}" for problem in problems[:TOLD]]
        lines += [f"[{name}] … and {len(problems) - TOLD} more"] if len(problems) > TOLD else []
    names = messages.Names(f"{case.id}, {' and '.join(titles)}", "compiled", reproduction)
    return messages.message(names, lines, told=len(lines))


def hold(
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
    """Holds an uncompiled reference or decomposition to an eager function and to float64, with the policy of `check`.

        hold(decomposition(aten.smooth_l1_loss.default), F.smooth_l1_loss, x, y, reduction="sum")

    Both are called with copies of `inputs` and `options`. Gradients are compared for inputs that require them;
    `grad_outputs` instead of random ones. `layout=False` leaves strides, storage offsets and aliasing open.
    `values`: other than "ordinary", they are special: where eager raises, the candidate must.
    Raises NumericsError, PolicyError, and whatever the functions raise.
    """
    title = f"{messages.name_of(candidate)} against {messages.name_of(eager)}"
    policy = Policy.from_declaration(numerics or {}, where=title)
    comparison = Comparison()
    holder = Holder(eager, Arguments(inputs, options), device, policy, title, comparison, "call", layout)
    holder.special = values != "ordinary"
    if grad_outputs is not None:
        holder.cotangents = [grad_outputs] if isinstance(grad_outputs, torch.Tensor) else list(grad_outputs)
    problems = holder.run(candidate)
    if problems:
        names = messages.Names(title, "candidate", "")
        raise NumericsError(messages.message(names, problems))
    return comparison
