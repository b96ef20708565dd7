"""The worker that makes trials: `python -m conformance.minimisation.trial_process`. It forks a process for each.

The worker itself calls no operator with many elements: threads of OpenMP would not survive a fork.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.capture.forked_call import ForkedCallError, call_in_fork, use_one_thread
from conformance.capture.json_worker import claim_stdout, serve
from conformance.cases import run_values
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.cases.inputs import Input
from conformance.cases.tolerance_policy import Policy
from conformance.compiler.compiler import Compiler, GeneratingError, checked_numerics, compiler_for
from conformance.containers import copy_to
from conformance.coverage.new_lines import new_lines, read_known
from conformance.coverage.recording import Executed
from conformance.devices.environment import PreparationError
from conformance.devices.targets import Target, use_tables
from conformance.errors import ConformanceError, first_line
from conformance.minimisation.call_history import two_calls
from conformance.numerics.problem import Problem

if TYPE_CHECKING:
    from conformance.capture.result import CaptureResult


def main() -> None:
    answers = claim_stdout()
    compiler: Compiler | None = None

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal compiler
        use_tables(request["tables"])
        run_values.receive(request["run_values"])
        try:
            if compiler is None:
                compiler = compiler_for(request["target"])
                _warm_up(compiler)
            if request.get("lines"):
                read_known()
            return _in_a_fork(lambda: _answer(compiler, request), request["time_limit"])
        except ConformanceError as error:
            return {"refused": str(error)}

    try:
        serve(answers, answer)
    finally:
        if compiler is not None:
            compiler.close()


def _warm_up(compiler: Compiler) -> None:
    """Imports the compiler, and lets it trace its patterns."""
    from conformance.capture.compiler_parts import import_compiler

    compiler.set_up_torch()
    import_compiler()
    import torch

    case = _case(lambda x: x + 1, {"x": torch.ones(2)}, {}, {})
    with (
        contextlib.suppress(GeneratingError, PreparationError),
        compiler.generate(case, compiler.target("cpu_avx2")),
    ):
        pass


def _in_a_fork(function: Callable[[], dict[str, Any]], limit: float) -> dict[str, Any]:
    try:
        return call_in_fork(function, limit)
    except ForkedCallError as error:
        return _nothing(str(error))


def _nothing(error: str) -> dict[str, Any]:
    return {"problems": [], "error": error, "applied": {}, "new_lines": []}


def _answer(compiler: Compiler, request: Mapping[str, Any]) -> dict[str, Any]:
    """Runs in the fork. An exception that is not the compiled code's becomes the `error`."""
    use_one_thread()  # several trials share the cores
    target = compiler.target(request["target"])
    applied: Any = {}
    executed = Executed()
    try:
        if "case" in request:
            case, _ = resolve_case(
                request["case"], compiler.machine.targets(), AdhocOptions.from_json(request["adhoc"])
            )
            problems = _check_case(compiler, case, target)
        else:
            with executed.recorded(branches=False) if request["lines"] else contextlib.nullcontext():
                problems, applied = _check_program(compiler, request, target)
                problems = problems if request["call"]["values"] else _without_values(problems)
    except PreparationError as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 - eager raised, there is no float64 reference, or it is not emulated
        return _nothing(f"{type(error).__name__}: {first_line(error)}")
    found = new_lines(executed) if request.get("lines") else []
    return {"problems": [each.to_json() for each in problems], "error": "", "applied": applied, "new_lines": found}


def _without_values(problems: Sequence[Problem]) -> list[Problem]:
    """The problems that other random numbers do not explain. Where they decide a shape, strides say nothing."""
    if any(each.rule in ("shape", "structure") for each in problems):
        return []
    return [each for each in problems if each.rule not in ("values", "constant")]


def _check_case(compiler: Compiler, case: Case, target: Target) -> list[Any]:
    from conformance.numerics.comparison import NumericsError
    from conformance.numerics.exceptions import raised_problem

    try:
        with compiler.generate(case, target, run=True) as result:
            _compiled(result, target)
            try:
                checked_numerics(compiler, case, result, target, native=compiler.is_native(target, run=True))
            except NumericsError as error:
                return error.problems
            except Exception as error:  # noqa: BLE001 - the check raises what compiled raises
                return [dataclasses.replace(raised_problem(error), call="first")]
    except GeneratingError as error:
        return [dataclasses.replace(raised_problem(error.__cause__ or error), call="first")]
    return []


def _compiled(result: CaptureResult, target: Target) -> Callable[..., Any]:
    if result.compiled is None:
        raise PreparationError(f"this machine does not run code for {target.name}, so no failure can be seen")
    return result.compiled


def _check_program(compiler: Compiler, request: Mapping[str, Any], target: Target) -> tuple[list[Any], Any]:
    import torch

    from conformance.capture.compiler_parts import LeftOut, left_out
    from conformance.numerics.exceptions import raised_problem

    names: dict[str, Any] = {}
    path = Path(request["program"])
    text = path.read_text(encoding="utf-8")
    exec(compile(text, str(path), "exec"), names)  # noqa: S102 - written by program.py
    call, inputs = request["call"], torch.load(request["inputs"])
    numerics = {"raises": request["raises"]} if request["raises"] else call["numerics"]
    case = _case(names["program"], inputs, {**call["config"], **request["options"]}, numerics)
    case = dataclasses.replace(case, dynamic=call["dynamic"], mode=call["mode"])
    with left_out(LeftOut(**request["left_out"])) as applications:
        if "between" in names:
            return _check_two_calls(compiler, case, text, request, target), applications.names
        if request["backend"] != "inductor":
            torch.compiler.reset()
            compiled = torch.compile(case.fn, backend=request["backend"], dynamic=case.dynamic)
            return _problems(case, compiled, "cpu", call, target), applications.names
        try:
            with compiler.generate(case, target, run=True) as result:
                compiled = _compiled(result, target)
                checked = case
                if not compiler.is_native(target, run=True):
                    from conformance.capture.emulation.fake_strides import with_device_strides

                    checked = dataclasses.replace(case, fn=with_device_strides(case.fn))
                return _problems(checked, compiled, target.device, call, target), applications.names
        except GeneratingError as error:
            return [raised_problem(error.__cause__ or error)], applications.names


def _check_two_calls(
    compiler: Compiler, case: Case, text: str, request: Mapping[str, Any], target: Target
) -> list[Any]:
    """Checks natively, because emulated code is generated for one call."""
    import torch

    from conformance.capture.isolation import isolated
    from conformance.numerics.check import Call, Comparison, check_call

    if target.device != "cpu" or not compiler.is_native(target, run=True):
        raise PreparationError(f"a second call after a change is checked natively on the CPU, and not on {target.name}")
    call, backend = request["call"], request["backend"]

    def compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(fn, backend=backend, dynamic=case.dynamic or None)  # None: what users do

    case = dataclasses.replace(case, fn=two_calls(text, lambda fn: fn))
    made = Call(call["kind"], call["name"], call["name"], case.build())
    with isolated(target, "native", dict(case.config)):
        torch.compiler.reset()
        problems, _, _ = check_call(
            case, two_calls(text, compiled), "cpu", Policy.for_case(case, target.name, "cpu"), Comparison(), made
        )
    return problems


def _problems(case: Case, compiled: Any, device: str, call: Mapping[str, Any], target: Target) -> list[Any]:
    from conformance.numerics.check import Call, Comparison, check_call

    policy = Policy.for_case(case, target.name, device)
    for _ in range(2):  # the second call finds what the first one has left behind
        made = Call(call["kind"], call["name"], call["name"], case.build())
        problems, _, _ = check_call(case, compiled, device, policy, Comparison(), made)
        if problems:
            break
    return problems


def _case(fn: Any, inputs: Mapping[str, Any], config: Mapping[str, Any], numerics: Mapping[str, Any]) -> Case:
    def recipe(value: Any) -> Input:
        return Input(lambda **_: copy_to(value.detach(), "cpu"), {})

    return Case(
        operator="minimise",
        name="program",
        labels=(),
        fn=fn,
        file=Path("program.py"),
        arguments={name: recipe(value) for name, value in inputs.items()},
        choices={name: {} for name in inputs},
        grad=tuple(name for name, value in inputs.items() if value.requires_grad),
        config=dict(config),
        numerics=dict(numerics),
    )


if __name__ == "__main__":
    main()
    sys.exit(0)
