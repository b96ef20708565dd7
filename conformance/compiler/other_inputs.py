"""Compiles and compares a case with other inputs: see cases/other_inputs.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from conformance.capture.request import CaptureRequest
from conformance.cases.other_inputs import REFUSED, OtherInputs, variants
from conformance.cases.tolerance_policy import Policy

if TYPE_CHECKING:
    from conformance.capture.model import Mode
    from conformance.capture.result import CaptureResult
    from conformance.cases.case import Case
    from conformance.devices.targets import Target
    from conformance.numerics.comparison import CallComparison, Comparison
    from conformance.numerics.problem import Problem

#: At most so many variants are compiled.
MOST = 8


def problems(
    capture: Callable[[CaptureRequest], AbstractContextManager[CaptureResult]],
    case: Case,
    fn: Callable,
    target: Target,
    mode: Mode,
    comparison: Comparison,
    *,
    emulates: bool,
) -> list[Problem]:
    found: list[Problem] = []
    policy = Policy.for_case(case, target.name, target.device)
    for other in variants(case, policy.without):
        made = _call(other, policy, target, comparison)
        error = made.eager_error()
        if bool(error) != (other.kind == REFUSED):
            continue
        request = CaptureRequest(replace(other.case, fn=fn), target, mode, emulate=emulates, texts=False)
        found += [replace(each, call=other.name) for each in _problems(capture, request, made, error)]
    return found


def _call(other: OtherInputs, policy: Policy, target: Target, comparison: Comparison) -> CallComparison:
    from conformance.numerics.comparison import CallComparison
    from conformance.numerics.outcome import Arguments
    from conformance.numerics.random_draws import is_seeded

    return CallComparison(
        other.case.fn,
        Arguments(kwargs=other.case.build(0)),
        target.device,
        policy,
        other.case.id,
        comparison,
        f"other inputs ({other.name})",
        mode=other.case.mode,
        call=other.name,
        same_draws=is_seeded(other.case),
    )


def _problems(capture, request: CaptureRequest, made: CallComparison, error: str) -> list[Problem]:
    import torch

    from conformance.capture.emulation.errors import NotEmulatedError
    from conformance.numerics.check import NumericsError, raised_problem
    from conformance.numerics.comparison import CandidateError
    from conformance.numerics.problem import Problem

    try:
        with capture(request) as captured:
            captured.build()
            if error:
                return [Problem("", "raises", f"eager raises {error}, and compiled raised nothing")]
            assert captured.compiled is not None
            return made.problems(captured.compiled)
    except (MemoryError, torch.OutOfMemoryError, OSError):
        raise
    except NotEmulatedError as missing:
        made.comparison.notes.append(f"{made.title}: skipped, not emulated: {missing}")
        return []
    except NumericsError as wrong:
        made.comparison.notes.append(f"{made.title}: skipped: {wrong}")
        return []
    except CandidateError as raised:
        return [raised_problem(raised.__cause__ or raised)]
    except Exception as raised:
        return [] if error else [raised_problem(raised)]
