"""The programs of a case, or of a script: the graphs that Dynamo captures in it, with the values of their inputs."""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.capture import call_modes
from conformance.capture.dynamo_graphs import NotWritableError, Recorder, recorded_compiles, written
from conformance.cases import other_inputs
from conformance.cases.case import Case
from conformance.cases.tolerance_policy import Policy
from conformance.containers import copy_to
from conformance.errors import first_line
from conformance.minimisation.program import EagerRun, Program
from conformance.minimisation.trial import Call
from conformance.numerics.problem import NEXT_CALL, ORDINARY_CALLS, SIZE_CALLS


def programs_of_case(case: Case, target: str, device: str, name: str) -> tuple[list[Program], Call]:
    """The programs of one call of the numerics check, and how the call is made. `name`: see Problem.call.

    The case runs on the CPU. Raises NotWritableError, also where the check makes no such call.
    """
    import torch

    from conformance.capture.compiler_options import FALLBACK
    from conformance.numerics.check import Comparison, calls
    from conformance.numerics.random_draws import is_random

    if name in SIZE_CALLS:
        raise NotWritableError(f"the call {name!r} needs code for other sizes: sizes that vary are not supported")
    if name == NEXT_CALL:
        raise NotWritableError(f"the call {name!r} needs code that was compiled before the state of the module changed")
    if (other := other_inputs.variant(case, name)) is not None:
        if other.kind == other_inputs.REFUSED:
            raise NotWritableError(f"in the call {name!r} eager raises: there is no program that computes something")
        case, name = other.case, ORDINARY_CALLS[0]
    comparison = Comparison(cotangent_dimensions=1)
    policy = Policy.for_case(case, target, device)
    call = next((each for each in calls(case, policy, comparison) if each.name == (name or ORDINARY_CALLS[0])), None)
    if call is None:
        known = ", ".join(each.name for each in calls(case, policy, comparison))
        raise NotWritableError(f"the check of {case.id} makes no call {name!r}; it makes: {known}")
    with recorded_compiles() as recorder:
        compiled = torch.compile(case.fn, dynamic=False)
        with contextlib.suppress(Exception), call_modes.enter_mode(case.mode, "cpu"):
            compiled(**copy_to(dict(call.arguments), "cpu"))
    kept = {key: case.numerics[key] for key in ("exact", "factor", "reference", "reason") if key in case.numerics}
    config = {key: value for key, value in case.config.items() if isinstance(value, (bool, int, float, str))}
    config |= {FALLBACK: True} if is_random(case) else {}  # then both sides draw the same numbers
    return _programs(recorder), Call(call.kind, call.name, case.mode, False, config, kept)


def programs_of_script(script: Path) -> list[Program]:
    """The programs that a script compiles. It runs with eager in place of the compiler. Raises NotWritableError."""
    arguments, sys.argv = sys.argv, [str(script)]
    try:
        with recorded_compiles() as recorder:
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit:
        pass
    except Exception as error:
        if not recorder.calls:
            raise NotWritableError(f"{script} compiles nothing, and raises {_text(error)}") from error
    finally:
        sys.argv = arguments
    return _programs(recorder)


def _programs(recorder: Recorder) -> list[Program]:
    """The programs of the recorded graphs that can be written. Raises NotWritableError if there is none."""
    found: list[Program] = []
    reasons: list[str] = []
    for each in recorder.calls:
        try:
            program = Program.of_graph(written(each))
        except NotWritableError as error:
            reasons.append(str(error))
            continue
        if program.steps and program.outputs:
            found.append(program)
    if not found:
        reason = next(iter(reasons), "Dynamo captures no graph that computes something")
        raise NotWritableError(reason)
    return found


def calls_of_script(programs: Sequence[Program]) -> list[Call]:
    """How to check the programs of a script, which declares nothing: against float64, then against eager alone."""
    kind = "special" if any(EagerRun(each).raised for each in programs) else "ordinary"
    against_eager = {"reference": "eager", "reason": "the script may compare with eager alone"}
    return [Call(kind), Call(kind, numerics=against_eager)]


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
