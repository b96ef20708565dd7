"""Doubts: why a program that fails may show no error of the compiler. Such a program is no finding.

These are no errors: numbers that cancel, so that the last digit of a larger one is all that is left; a jump, such as a
rounding to integers, at a number whose last digit differs; by the design of Inductor, 16-bit results that keep more
bits inside a kernel; and what is documented: hooks that come after the compile, and another exception than eager's.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import Any

from conformance.minimisation.call_history import two_calls
from conformance.minimisation.failure import Failure
from conformance.minimisation.program import EagerRun, Program, names_of_tensor
from conformance.minimisation.trial import Trials
from conformance.numerics.problem import Problem

#: Errors below this many units in the last place of the largest number of the program are rounding.
_ULPS = 16
#: By how many units in the last place all floating inputs change, to see whether a result jumps.
_CHANGES = (1, -1, 3)
#: A part of a change between two calls → what PyTorch says about it.
_DOCUMENTED = {
    "_hook(": "hooks of modules that are registered after the compile are not seen (skip_nnmodule_hook_guards)",
}
_RAISES = r"(?:eager raises|numerics\['raises'\] is) '?\w+'?,? and "
_OTHER_EXCEPTION = re.compile(_RAISES + r"compiled raised (?!nothing)(?!.*, after it changed)", re.DOTALL)
#: Eager is the reference of the program, and does not do what it did when the program was made.
_EAGER_DIFFERS = re.compile(_RAISES + "eager raised ")
_SIXTEEN_BITS = re.compile(r"bfloat16|float16|\.half\(")


def doubt(program: Program, problem: Problem, trials: Trials) -> str:
    """Why the failure may be no error; "" where there is no doubt. `trials`: with the call that fails."""
    if what := _documented(program, problem, trials):
        return what
    values = problem.wrong_values
    if problem.rule != "values" or values is None:
        return ""
    if not values.off_by:  # NaN or an infinity instead of a number, or the reverse
        return ""
    run = EagerRun(program)
    if values.off_by <= _ULPS * _eps(program, run, problem) * _largest(run):
        return "a large number cancels"
    if values.off_by <= 4 * _jump(program, problem):
        return "eager's own result jumps when inputs change in the last digit"
    if _has_16_bits(program) and not Failure.of(problem).found_in(
        trials.run(program, options={"emulate_precision_casts": True}).problems
    ):
        return "16-bit results keep more bits inside a kernel"
    return ""


def _documented(program: Program, problem: Problem, trials: Trials) -> str:
    """What is documented, if that is why the program fails; or ""."""
    if problem.rule == "raises" and _OTHER_EXCEPTION.search(problem.text):
        return "compiled raises too, but another exception (docs/numerics.md)"
    if problem.rule == "raises" and _EAGER_DIFFERS.search(problem.text):
        return "eager writes to an input before it raises, or raises something else for this device"
    for word, what in _DOCUMENTED.items():
        rest = tuple(line for line in program.between if word not in line)
        if len(rest) < len(program.between) and not Failure.of(problem).found_in(
            trials.run(replace(program, between=rest)).problems
        ):
            return what
    return ""


def _numbers(run: EagerRun) -> list[Any]:
    import torch

    tensors = [value for value in run.values.values() if isinstance(value, torch.Tensor)]
    return [value.detach() for value in tensors if value.is_floating_point() and value.numel()]


def _largest(run: EagerRun) -> float:
    return max((float(value.double().nan_to_num(0, 0, 0).abs().max()) for value in _numbers(run)), default=0.0)


def _eps(program: Program, run: EagerRun, problem: Problem) -> float:
    """Of the dtype of the wrong tensor."""
    import torch

    names = [*names_of_tensor(problem.tensor, program.outputs), problem.tensor.removeprefix("gradient of ")]
    found = next((run.values[name] for name in names if isinstance(run.values.get(name), torch.Tensor)), None)
    dtype = found.dtype if found is not None and found.dtype.is_floating_point else torch.float32
    return float(torch.finfo(dtype).eps)


def _jump(program: Program, problem: Problem) -> float:
    """The largest change of the wrong output over small changes of the inputs; of its elements, whichever change."""
    import torch

    if not problem.tensor.startswith("output"):
        return 0.0
    first, largest = _output(program, problem), 0.0
    for ulps in _CHANGES:
        inputs = {
            key: value.detach() * (1 + ulps * torch.finfo(value.dtype).eps) if value.is_floating_point() else value
            for key, value in program.inputs.items()
        }
        other = _output(replace(program, inputs=inputs), problem)
        if isinstance(first, torch.Tensor) and isinstance(other, torch.Tensor) and first.shape == other.shape:
            change = (first.detach().double() - other.detach().double()).nan_to_num(0, 0, 0).abs()
            largest = max(largest, float(change.max()) if change.numel() else 0.0)
    return largest


def _output(program: Program, problem: Problem) -> Any:
    """Eager's result that the problem names; None if eager raises."""
    import torch

    if not program.is_called_again:
        return EagerRun(program).values.get(next(names_of_tensor(problem.tensor, program.outputs), ""))
    torch.manual_seed(0)
    with contextlib.suppress(Exception):  # whatever eager raises with other inputs
        results = two_calls(program.text, lambda fn: fn)(**program.inputs)
        return results[int((re.search(r"\d+", problem.tensor) or ["0"])[0])]
    return None


def _has_16_bits(program: Program) -> bool:
    return bool(_SIXTEEN_BITS.search(program.text)) or any(
        value.is_floating_point() and value.itemsize == 2 for value in program.inputs.values()
    )
