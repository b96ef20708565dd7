"""The GPU-free worker: a process that sees no GPU. It makes deviceless captures on a machine that has a GPU.

    python -m conformance.compiler.gpu_free_worker    # one request a line on stdin, one answer a line on stdout

A process that uses a real GPU cannot pretend another one: PyTorch's guards, context and driver for the GPU are loaded.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.capture.deviceless.prepare import prepare
from conformance.capture.emulation.extents import Report
from conformance.capture.json_worker import JsonWorker, WorkerError, claim_stdout, serve
from conformance.capture.model import Capture
from conformance.capture.result import CaptureResult
from conformance.cases import run_values
from conformance.cases.adhoc import AdhocCase, AdhocOptions, resolve_case
from conformance.cases.loader import cases_in
from conformance.cases.repeated_case import repeated
from conformance.compiler.case_request import CaseRequest
from conformance.compiler.other_inputs import OtherCompiles
from conformance.compiler.random_functions import compared
from conformance.devices.environment import HIDE_GPUS
from conformance.devices.targets import Target, targets, use_tables
from conformance.errors import ConformanceError
from conformance.numerics.audit import Audit, Judgement, check_and_audit
from conformance.numerics.problem import Problem
from conformance.settings import option_name, typed_inductor_config
from conformance.sources.source_in_use import refuse_other_files
from conformance.sources.torch_source import SourceError

if TYPE_CHECKING:
    from conformance.compiler.shared_captures import SharedCaptures

#: Seconds for one capture. The first one also imports torch. On a slow machine, a capture with an empty cache and
#: emulation takes up to two minutes: more than 600 s means that the worker hangs.
CAPTURE_LIMIT = 600.0
#: Variables of a process that counts calls: its code is always deviceless, and its sets have the same order.
COUNTING = HIDE_GPUS | {"PYTHONHASHSEED": "0"}
#: The variable that passes further tables of targets to the worker.
_TABLES = "_CONFORMANCE_TARGET_TABLES"
#: What the worker is sent of a request as it is. Its captures are not native, so none defers its build.
_OPTIONS = ("form", "explore", "emulate", "texts", "shares", "audit", "other_inputs", "counts_calls", "repeats")


class GpuFreeWorkerError(ConformanceError, RuntimeError):
    """The GPU-free worker could not capture. The message: what compiling raised there, or how the worker ended."""

    status = 1


class GpuFreeWorker:
    """The parent's side of the worker. The process starts at the first capture.

    `threads`: how many threads torch uses there, unless OMP_NUM_THREADS says so; 0 for torch's own choice.
    `tables`: further tables of targets, see targets.use_tables. `inductor_config`: laid over that of each case.
    """

    def __init__(
        self, threads: int = 0, tables: Sequence[str] = (), inductor_config: Mapping[str, Any] | None = None
    ) -> None:
        environment = ({"OMP_NUM_THREADS": str(threads)} if threads else {}) | os.environ | COUNTING
        self.environment = environment | {_TABLES: os.pathsep.join(tables)}
        self._inductor_config = inductor_config or {}
        self._run_options = typed_inductor_config(self._inductor_config)
        self._worker = JsonWorker(__name__, self.environment, echo_stderr=True)

    def capture(self, request: CaseRequest) -> CaptureResult:
        """Captures what `request` asks for, without the device. Raises GpuFreeWorkerError."""
        case, target = request.case, request.target
        message: dict[str, Any] = {"file": str(case.file), "case": case.id, "target": target.to_json()}
        message |= {"options": {name: getattr(request, name) for name in _OPTIONS}}
        message |= {"config": repr(dict(self._inductor_config)), "run_options": self._run_options}
        message["run_values"] = run_values.sent()
        if isinstance(case, AdhocCase):
            message |= {"spec": case.spec, "adhoc": case.options}
        try:
            answer = self._worker.ask(message, CAPTURE_LIMIT)
        except WorkerError as error:
            text = f"the GPU-free worker could not capture {case.id} for {target.name}: {error}"
            raise GpuFreeWorkerError(text) from None
        if "raised" in answer:
            raise GpuFreeWorkerError(answer["raised"])
        numerics, shared_with = answer.pop("numerics", None), answer.pop("shared_with", "")
        judgements = [Judgement.from_json(each) for each in answer.pop("judgements", ())]
        return CaptureResult(
            Capture.from_json(answer),
            worker_numerics=functools.partial(_numerics_lines, numerics) if request.emulate else None,
            shared_with=shared_with,
            extents=functools.partial(Report.from_json, (numerics or {}).get("extents", {})),
            judgements=judgements,
            error_profiles=(numerics or {}).get("error_profiles", ()) if not shared_with else (),
        )

    def close(self) -> None:
        """Kills the process."""
        self._worker.close()


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    try:
        return _capture(message)
    except Exception as error:  # noqa: BLE001 - whatever compiling raises is the answer
        return {"raised": f"{type(error).__name__}: {error}"}


def _capture(message: dict[str, Any]) -> dict[str, Any]:
    from conformance.compiler.case_request import capture

    request = _request(message)
    case, target = request.case, request.target
    may_share = request.shares and request.form == "whole" and not (request.explore or request.texts)
    shared = _shared_captures().find(case, target) if may_share else None
    if shared is not None and (shared.numerics is not None or not request.emulate):
        answer = shared.for_target(target).to_json() | {"shared_with": shared.target.name}
        return answer | ({"numerics": shared.numerics} if request.emulate else {})
    with capture(request) as captured:
        answer = captured.capture.to_json(complete=request.texts)
        numerics = None
        if captured.compiled is not None:
            audit = Audit() if request.audit else None
            numerics = answer["numerics"] = _numerics(request, captured, audit, message["run_options"])
            numerics["extents"] = captured.extents().to_json()
            answer |= {"judgements": [each.to_json() for each in audit.judgements]} if audit else {}
    if may_share and (numerics is None or "lines" in numerics):
        _shared_captures().add(case, target, captured.capture, captured.queries, numerics)
    return answer


def _request(message: dict[str, Any]) -> CaseRequest:
    """The request that the parent sent. Uses the values of the parent's run."""
    run_values.receive(message["run_values"])
    if "spec" in message:
        sent = message["adhoc"]
        options = AdhocOptions(
            inputs=tuple(sent["inputs"]),
            grad=tuple(sent["grad"]),
            dynamic=sent["dynamic"],
            config=tuple(sent["config"]),
        )
        case, _ = resolve_case(message["spec"], list(targets()), options)
    else:
        case = cases_in(Path(message["file"]))[message["case"]]
    case = case.with_config(ast.literal_eval(message["config"]))
    case = repeated(case, message["options"]["repeats"])
    target = Target.from_json(message["target"])  # a GPU that matches no row is not in the table
    return CaseRequest(case, target, "deviceless", **message["options"])


@functools.cache
def _shared_captures() -> SharedCaptures:
    from conformance.compiler.shared_captures import SharedCaptures

    return SharedCaptures()


def _numerics(request: CaseRequest, captured: CaptureResult, audit: Audit | None, run_options: str) -> dict[str, Any]:
    """What the numerics check found, as JSON: its lines, or the type and message of what it raised; and its
    error profiles.

    `audit`: gets the judgements of the opt-outs. `run_options`: as for check_numerics.
    """
    from conformance.compiler.case_request import capture
    from conformance.numerics.check import Observed, check_numerics

    check = functools.partial(check_numerics, run_options=run_options)
    check = check if audit is None else functools.partial(check_and_audit, audit)
    case, target, observed = request.case, request.target, Observed()
    others = OtherCompiles(capture, case.fn, target, request.mode, emulates=True).problems
    answer: dict[str, Any] = {}
    comparing = compared(capture, case, target, captured, observed.comparison, emulates=True)
    try:
        with comparing as (checked, compiled, note):
            comparison = check(
                checked,
                compiled,
                target.device,
                target.name,
                observed=observed,
                others=others if request.other_inputs else None,
            )
        answer["lines"] = [*comparison.summary(), *filter(None, [note])]
    except Exception as error:  # noqa: BLE001 - the parent raises it again
        problems = [problem.to_json() for problem in getattr(error, "problems", ())]
        is_failure = isinstance(error, AssertionError)
        answer |= {"type": type(error).__name__, "message": str(error), "failure": is_failure, "problems": problems}
    return answer | {"error_profiles": observed.comparison.error_profiles.to_json()}


def _numerics_lines(numerics: dict[str, Any] | None) -> list[str]:
    """The lines of the numerics check, or the error that it raised in the worker.

    The error gets a class of the same name, with its problems: known failures match it by them.
    """
    from conformance.capture.emulation.errors import NotEmulatedError

    if numerics is None:
        return []
    if "lines" in numerics:
        return numerics["lines"]
    if numerics["type"] == NotEmulatedError.__name__:
        raise NotEmulatedError(numerics["message"])
    base = AssertionError if numerics["failure"] else RuntimeError
    problems = [Problem.from_json(problem) for problem in numerics["problems"]]
    raise type(numerics["type"], (base,), {"problems": problems})(numerics["message"])


def use_passed_tables() -> None:
    """In the worker: adds the tables of targets that its parent uses."""
    use_tables([path for path in os.environ.get(_TABLES, "").split(os.pathsep) if path])


def main() -> None:
    """Serves requests until stdin ends."""
    answers = claim_stdout()
    use_passed_tables()
    prepare()
    try:
        refuse_other_files(option_name("torch-source"))
    except SourceError as error:
        sys.exit(str(error))
    serve(answers, _answer)


if __name__ == "__main__":
    main()
