"""Finds what differs between two outcomes, and builds the message of a numerics failure.

Known failures match the text of problems of the rule "raises": check known_failures/*.toml before you change it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from conformance.capture.observers.dynamo import NOT_REACHED, branches_on_data
from conformance.cases import run_values
from conformance.cases.tolerance_policy import OMISSIBLE
from conformance.documentation import reference
from conformance.numerics.error_pattern import error_pattern
from conformance.numerics.measurement import Measurement, bits_equal
from conformance.numerics.problem import OF_THE_DECLARATION, SIZE_CALLS, Problem
from conformance.numerics.wrong_values import wrong_values
from conformance.settings import option_name

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.numerics.outcome import Outcome

NO_REFERENCE = (
    "the function depends on the dtype, so it has no float64 reference; declare "
    "numerics={'reference': 'eager', 'reason': '…'}"
)

#: Where the keys of `numerics` are documented, and what to do if PyTorch is wrong.
WIDER = reference("numerics", "a-wider-tolerance")
KNOWN_FAILURES = reference("numerics", "known-bugs")
#: Where it is documented how a case calls a step of an optimizer.
OPTIMIZERS = reference("numerics", "steps-of-an-optimizer")
#: A message proposes no wider factor on eager's error than this one.
PROPOSED = 32

#: A message shows this many disagreements and counts the others: the first ones usually cause the rest.
SHOWN = 5
#: A message shows so many guards that failed in one call.
SHOWN_REASONS = 3
#: A message shows the elements of so many inputs.
SHOWN_INPUTS = 6


@dataclass(frozen=True)
class Heading:
    """What a failure message names around the disagreements.

    `title`: the case and the call. `candidate`: what was compared with eager, such as "compiled". `reproduction`: the
    command that reproduces the failure, or "". `advice`: what the author may declare, or "". `verdict`: what the
    disagreements say; by default, that they are ones.
    """

    title: str
    candidate: str
    reproduction: str
    advice: str = ""
    verdict: str = ""


#: What problems say that are all of one rule, and no disagreement about values.
_VERDICTS = {
    "recompiles": "the function is compiled again",
    "reference": "there is no float64 reference to compare with",
    "nothing compared": "nothing is compared",
}


def verdict(problems: Sequence[Problem]) -> str:
    """What these problems say where they are no disagreement; else ""."""
    rules = {problem.rule for problem in problems}
    return _VERDICTS.get(rules.pop(), "") if len(rules) == 1 else ""


def failure_message(heading: Heading, texts: list[str], shown: int = SHOWN) -> str:
    """The message of a failure, with the first `shown` texts."""
    said = heading.verdict or f"{heading.candidate} disagrees with eager"
    lines = [f"{heading.title}: {said}", *texts[:shown]]
    if len(texts) > shown:
        lines.append(f"… and {len(texts) - shown} more")
    if heading.advice:
        lines.append(heading.advice)
    if heading.reproduction:
        lines.append(f"to reproduce: {heading.reproduction}")
    return "\n".join(lines)


def nothing_compiled(case: str, text: str) -> str:
    """The message of a check that would compare eager with eager. `text`: what was not compiled, and why."""
    allowed = 'numerics={"without": {"graphs": "why"}}'
    return f"{case}: {text}\nEager would be compared with itself. If that is meant, say why: @case(…, {allowed})"


def advice(problems: Sequence[Problem], recompiles: int = 0, function: Callable[..., Any] | None = None) -> str:
    """One line: the keys of `numerics` that would excuse all problems, as an author writes them, or that none would.

    "" where the problems are the declaration's: their texts say what to change.

    `recompiles`: the most compiles that one call made again. `function`: the case's. Proposes no factor above PROPOSED:
    that far away, compiled is more likely wrong than the limit too narrow.
    """
    if any(problem.rule == "recompiles" for problem in problems) and makes_an_optimizer(function):
        return (
            "the function makes an optimizer, another one in each call, so Dynamo compiles each call again: take its "
            f"state as inputs, and call torch.optim.adam.adam(…) instead of torch.optim.Adam(…); see {OPTIMIZERS}"
        )
    if all(NOT_REACHED in problem.text for problem in problems) and (branches := branches_on_data()):
        meant = json.dumps({"recompiles": recompiles, "reason": "why"})
        return (
            f"`{'` and `'.join(branches)}` branches on data, and Dynamo compiles a way when a call first takes it: "
            f"write torch.where(…) or torch.cond(…), or if it is meant numerics={meant}"
        )
    problems = [problem for problem in problems if problem.rule not in OF_THE_DECLARATION]
    if not problems:
        return ""
    keys: dict[str, Any] = {}
    without: dict[str, str] = {}
    factor, error, unexcused = 0.0, 0.0, []
    for problem in problems:
        name = "sizes" if problem.call in SIZE_CALLS else problem.call
        if problem.rule == "recompiles":
            keys["recompiles"] = recompiles
        elif name in OMISSIBLE:
            without[name] = "why"
        elif problem.rule == "values" and 0 < problem.factor <= PROPOSED:
            factor, error = max(factor, problem.factor), max(error, problem.error)
        else:
            unexcused.append(problem.rule)
    if unexcused:
        rules = ", ".join(dict.fromkeys(unexcused))
        known = f"if PyTorch is wrong, write a known failure; see {KNOWN_FAILURES}"
        return f"no key of numerics={{…}} excuses {rules}: {known}"
    reason = "why"
    if factor:
        keys = {"factor": math.ceil(factor)} | keys
        reason = f"measured {error:.3g} ulp: why"
    if keys:
        keys["reason"] = reason
    if without:
        keys["without"] = without
    return f"if compiled is right, say why: @case(…, numerics={json.dumps(keys)}); see {WIDER}"


def makes_an_optimizer(function: Callable[..., Any] | None) -> bool:
    """Whether the code of the function names a class of torch.optim."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    names = {*code.co_names, *code.co_freevars}
    known = {name for name, value in vars(torch.optim).items() if isinstance(value, type)}
    return bool(names & (known - {"Optimizer"}))


def reproduction(case: Case, target: str, run_options: str = "") -> str:
    """The command that runs the case again. `run_options`: pytest options that this run was given."""
    if command := getattr(case, "command", ""):  # an ad-hoc function of the command line is no pytest item
        return f"{command} --target {target} --numerics"
    file = os.path.relpath(case.file) if case.file.exists() else str(case.file)
    labels = "-".join((*case.labels, *([target] if target else [])))
    options = [f"{option_name('checks')} numerics"]
    options += [option_name("thorough")] if case.combined else []
    options += [f"{option_name('seed')} {seed}"] if (seed := run_values.current().seed) else []
    options += [run_options] if run_options else []
    return f'pytest "{file}::test_{case.name}[{labels}]" {" ".join(options)}'


def recompilation(frames: int, reasons: Sequence[str] = (), *, already_called: bool) -> Problem:
    """The problem of a call that made Dynamo compile `frames` frames again. `reasons`: the guards that failed."""
    earlier = "the capture" if already_called else "the first call"
    count = "1 frame was" if frames == 1 else f"{frames} frames were"
    text = f"{count} compiled again; the code that {earlier} compiled must serve this call"
    return with_reasons(Problem("", "recompiles", text), reasons)


def with_reasons(problem: Problem, reasons: Sequence[str]) -> Problem:
    """The problem with the reasons why Dynamo compiled again, each in a line; only so many as a message shows."""
    more = [f"… and {len(reasons) - SHOWN_REASONS} more"] if len(reasons) > SHOWN_REASONS else []
    titles = ["reason", *[""] * SHOWN_REASONS]
    lines = [f"  {title:<13} {each}" for title, each in zip(titles, [*reasons[:SHOWN_REASONS], *more], strict=False)]
    return replace(problem, text="\n".join([problem.text, *lines]))


def recompile_limit() -> Problem:
    """The problem of a call in which Dynamo would have stopped compiling, so that eager would agree with eager."""
    text = (
        "Dynamo has compiled the function again as often as torch._dynamo.config.recompile_limit allows: this call was "
        "not compiled, and not compared"
    )
    return Problem("", "recompiles", text)


def qualified_name(function: Callable[..., Any]) -> str:
    """The function's qualified name, without `<locals>`."""
    name = getattr(function, "__qualname__", None) or str(function)
    return name.replace("<locals>.", "")


def output_problems(got: Outcome, eager: Outcome, layout: bool, notes: list[str]) -> Iterator[Problem]:
    """Differences in containers, constants, shared storage, and in all of an output but its values.

    `layout`: whether strides, storage offsets and shared storage count. Appends insignificant differences to `notes`.
    """
    if got.structure != eager.structure:
        yield Problem("", "structure", f"result: its structure is {got.structure}, eager's is {eager.structure}")
    for name, eager_output in eager.outputs.items():
        output = got.outputs.get(name)
        if isinstance(eager_output, torch.Tensor):
            if isinstance(output, torch.Tensor):
                yield from _tensor_problems(name, output, eager_output, layout, notes)
        elif name in got.outputs and not isinstance(output, torch.Tensor) and not _same_constant(output, eager_output):
            yield Problem(name, "constant", f"{name}: its value is {output!r}, eager's is {eager_output!r}")
    if layout and got.structure == eager.structure:
        for one, other in sorted(got.shared_storage - eager.shared_storage):
            text = f"{one} shares storage with {other}, and in eager it does not"
            yield Problem(f"{one}, {other}", "aliasing", text)
        for one, other in sorted(eager.shared_storage - got.shared_storage):
            text = f"{one} does not share storage with {other}, and in eager it does"
            yield Problem(f"{one}, {other}", "aliasing", text)
    for name in sorted(got.written_outside_view - eager.written_outside_view):
        text = f"{name}: the call wrote to the input's storage outside of the input's elements"
        yield Problem(name, "outside write", text)


def input_problems(got: Outcome, eager: Outcome) -> Iterator[Problem]:
    """Differences in what the call made of the arguments' containers, and in what is no tensor in them."""
    for name, eager_structure in eager.input_structure.items():
        if got.input_structure[name] != eager_structure:
            text = f"{name} after the call: its structure is {got.input_structure[name]}, eager's is {eager_structure}"
            yield Problem("", "structure", text)
    for name in sorted(got.inputs.keys() ^ eager.inputs.keys()):
        who = "compiled has one, and eager has none" if name in got.inputs else "missing, and eager has one"
        yield Problem("", "structure", f"{name} after the call: {who}")
    for name, other in eager.inputs.items():
        if name not in got.inputs:
            continue
        one = got.inputs[name]
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            yield from _attribute_problems(f"{name} after the call", one, other, "dtype", "shape")
        elif isinstance(one, torch.Tensor) != isinstance(other, torch.Tensor) or not _same_constant(one, other):
            text = f"{name} after the call: it is {_short_value(one)}, eager's is {_short_value(other)}"
            yield Problem(f"{name} after the call", "constant", text)


def _short_value(value: Any) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)


def _tensor_problems(
    name: str, got: torch.Tensor, eager: torch.Tensor, layout: bool, notes: list[str]
) -> Iterator[Problem]:
    yield from _attribute_problems(name, got, eager, "device", "dtype", "shape", "requires_grad")
    if not layout or got.shape != eager.shape:
        return
    yield from _stride_problem(name, got, eager, notes)
    if got.storage_offset() != eager.storage_offset():
        text = f"{name}: storage offset is {got.storage_offset()}, eager's is {eager.storage_offset()}"
        yield Problem(name, "storage offset", text)


def _attribute_problems(name: str, got: torch.Tensor, eager: torch.Tensor, *attributes: str) -> Iterator[Problem]:
    for attribute in attributes:
        one, other = getattr(got, attribute), getattr(eager, attribute)
        if one != other:
            yield Problem(name, attribute, f"{name}: {attribute} is {_short(one)}, eager's is {_short(other)}")


def _stride_problem(name: str, got: torch.Tensor, eager: torch.Tensor, notes: list[str]) -> Iterator[Problem]:
    """A different stride, or a note where no element lies elsewhere. Both tensors have the same shape."""
    if got.stride() == eager.stride():
        return
    text = f"{name}: strides are {got.stride()}, eager's are {eager.stride()}, for the shape {tuple(got.shape)}"
    differs = [size > 1 and a != b for size, a, b in zip(got.shape, got.stride(), eager.stride(), strict=True)]
    if got.numel() and any(differs):
        yield Problem(name, "strides", text)
    else:
        notes.append(f"{text} (insignificant: they differ only where a size is 0 or 1)")


def gradient_problems(got: Outcome, eager: Outcome, layout: bool, notes: list[str]) -> Iterator[Problem]:
    """Differences in all of a gradient but its values.

    `layout`: whether strides count. Appends insignificant differences to `notes`.
    """
    for name, eager_gradient in eager.gradients.items():
        title = f"gradient of {name}"
        gradient = got.gradients.get(name)
        if gradient is None and eager_gradient is None:
            continue
        if gradient is None:
            yield Problem(title, "gradient", f"{title}: missing, and eager computes one")
        elif eager_gradient is None:
            yield Problem(title, "gradient", f"{title}: computed, and eager computes none")
        else:
            yield from _attribute_problems(title, gradient, eager_gradient, "dtype", "shape")
            if layout and gradient.shape == eager_gradient.shape:
                yield from _stride_problem(title, gradient, eager_gradient, notes)


def is_comparable(got: Outcome, eager: Outcome, name: str) -> bool:
    """Whether the values of an output can be compared, and the same cotangent fits both tensors."""
    one, other = got.outputs.get(name), eager.outputs[name]
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return not isinstance(one, torch.Tensor) and not isinstance(other, torch.Tensor)
    return same_shape_and_dtype(one, other) and one.requires_grad == other.requires_grad


def same_shape_and_dtype(one: Any, other: Any) -> bool:
    """Whether both are tensors, of the same shape and dtype."""
    both_tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return both_tensors and one.shape == other.shape and one.dtype == other.dtype


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same shape, dtype and values. A NaN equals a NaN."""
    if not same_shape_and_dtype(one, other):
        return False
    if bits_equal(one, other):
        return True
    differ = one != other
    return not bool((differ & ~(one.isnan() & other.isnan())).any())


def value_problem(
    title: str,
    measurement: Measurement,
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor | None,
    inputs: Mapping[str, torch.Tensor],
) -> Problem:
    """The wrong elements of a tensor. The text says how many there are, and shows the worst one.

    `got`, `eager`: CPU tensors of one shape and dtype. `reference`: float64 or complex128, of that shape.
    """
    index = measurement.index
    count = f"{measurement.wrong_count} of {measurement.total} elements are wrong{error_pattern(measurement.wrong)}"
    lines = [f"{title} ({_short(got.dtype)}): {count}; the worst at {list(index)}"]
    texts = {name: _element_text(tensor, eager.shape, index) for name, tensor in inputs.items()}
    elements = [f"{name} = {text}" for name, text in texts.items() if text]
    if elements:
        more = ["…"] if len(elements) > SHOWN_INPUTS else []  # a module may have many biases
        lines.append(f"  inputs there  {', '.join([*elements[:SHOWN_INPUTS], *more])}")
    lines.append(f"  got           {_number(got[index])}")
    lines.append(f"  eager         {_number(eager[index])}")
    if reference is not None and not measurement.exact:
        lines.append(f"  float64       {_number(reference[index])}")
    if measurement.error not in (0.0, float("inf")):
        lines.append(
            f"  error         {measurement.error:.3g} ulp, allowed {measurement.allowed:.3g} ulp "
            f"(eager's {measurement.eager_error:.3g})"
        )
    if measurement.rule:
        lines.append(f"  rule          {measurement.rule}")
    extent = wrong_values(measurement.wrong, got, eager)
    if set(extent.changes) != {"number → number"}:
        lines.append(f"  changes       {extent}")
    return Problem(
        title, "values", "\n".join(lines), wrong_values=extent, factor=measurement.factor, error=measurement.error
    )


def _element_text(tensor: torch.Tensor, shape: torch.Size, index: tuple[int, ...]) -> str:
    """The element of an input that belongs to `index` of the result; "" if the input does not broadcast to `shape`."""
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
    return one is other or one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))
