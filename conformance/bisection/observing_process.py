"""The process that observes cases with one torch: `python -m conformance.bisection.observing_process`.

Reads a request from stdin and prints one line of JSON for each case. Its PYTHONPATH decides which torch it imports.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conformance.bisection.executed_code import recorded_functions, recorded_lines
from conformance.bisection.observation import WORK, Observation
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.compiler.compile_growth import counted
from conformance.compiler.compiler import Compiler, GeneratingError, checked_numerics, compiler_for
from conformance.compiler.gpu_free_worker import GpuFreeWorkerError
from conformance.devices.environment import PreparationError
from conformance.devices.targets import Target, use_tables
from conformance.errors import ConformanceError
from conformance.generated.capture_texts import code_text
from conformance.sources.source_fit import import_problem

if TYPE_CHECKING:
    from conformance.compiler.compile_growth import Captures

#: Each line of an answer begins with it: cases may print.
ANSWER = "OBSERVED "
#: Words of errors that Python raises where the binaries lack what it calls.
_MISFITS = ("torch._C", "_OpNamespace", "torch.ops.", "ImportError", "ModuleNotFoundError")


def main() -> int:
    """The request: `cases` as typed, `options` of ad-hoc functions, `target`, `tables` of targets, `numerics`, `work`
    and `functions`, whether each is wanted, and `ranges`, of which functions to record lines.

    Answers: `observations`, case as typed → Observation; `functions`, `lines`: path below torch/ → line numbers.
    """
    request = json.load(sys.stdin)
    functions: dict[str, list[int]] = {}
    lines: dict[str, list[int]] = {}
    with contextlib.ExitStack() as stack:
        if request["ranges"]:
            stack.enter_context(recorded_lines(functions, lines, request["ranges"]))
        elif request["functions"]:
            stack.enter_context(recorded_functions(functions))
        observations = _observe_all(request)
    answer = {
        "observations": {name: each.to_json() for name, each in observations.items()},
        "functions": functions,
        "lines": lines,
    }
    print(f"\n{ANSWER}{json.dumps(answer)}", flush=True)
    return 0


def _observe_all(request: Mapping[str, Any]) -> dict[str, Observation]:
    words = request["cases"]
    use_tables(request["tables"])
    try:
        with contextlib.closing(compiler_for(request["target"])) as compiler:
            if reason := import_problem():
                return dict.fromkeys(words, Observation(misfit=reason))
            target, options = compiler.target(request["target"]), AdhocOptions.from_json(request["options"])
            captures = compiler.capture if request["work"] else None
            return {
                word: observe_case(compiler, word, options, target, numerics=request["numerics"], captures=captures)
                for word in words
            }
    except PreparationError as error:
        return dict.fromkeys(words, Observation(misfit=str(error)))


def observe_case(
    compiler: Compiler,
    word: str,
    options: AdhocOptions,
    target: Target,
    *,
    numerics: bool,
    captures: Captures | None = None,
) -> Observation:
    start = time.perf_counter()
    try:
        return observation(compiler, word, options, target, numerics=numerics, captures=captures)
    except UNOBSERVED as error:
        return dataclasses.replace(unobserved(error), seconds=time.perf_counter() - start)


def observation(
    compiler: Compiler,
    word: str,
    options: AdhocOptions,
    target: Target,
    *,
    numerics: bool,
    gradients: bool = True,
    captures: Captures | None = None,
) -> Observation:
    """`gradients`: whether those that the case declares are computed. `captures`: what counts the calls of a compile,
    if they are wanted. Raises what `unobserved` takes.
    """
    case, _ = resolve_case(word, compiler.machine.targets(), options)
    case = case if gradients else dataclasses.replace(case, grad=())
    start = time.perf_counter()
    with compiler.generate(case, target, run=numerics) as result:
        from conformance.facts import extract

        facts, code = extract(result.capture), code_text(result.capture, target)
        state, problem = _numerics(case, result, target, compiler) if numerics else ("", "")
        unmet = _unmet(compiler, case, target, facts, code)
        texts = _texts(facts) | (_work(captures, case, target) if captures else {})
        seconds = time.perf_counter() - start
        return Observation("", "", code, texts, state, problem, tuple(unmet), seconds=seconds)


#: What `observation` raises where there is no code.
UNOBSERVED = (GeneratingError, PreparationError)


def unobserved(error: Exception) -> Observation:
    """The observation of a case for which one of UNOBSERVED was raised."""
    if isinstance(error, PreparationError):
        return Observation(misfit=str(error))
    text = _summary(error)
    if any(word in text for word in _MISFITS):
        return Observation(misfit=text)
    return Observation(error=text.partition(": ")[2])


def _summary(error: Exception) -> str:
    """The first line of a message, and the second where the first one says that something raised it:"""
    first, *others = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return f"{first} {others[0]}" if first.endswith(":") and others else first


def _numerics(case: Case, result: Any, target: Target, compiler: Compiler) -> tuple[str, str]:
    from conformance.capture.emulation.errors import EmulationError, NotEmulatedError
    from conformance.numerics.check import NumericsError

    wrong = (NumericsError, EmulationError) if result.worker_numerics is None else (AssertionError,)
    try:
        lines = checked_numerics(compiler, case, result, target, native=compiler.is_native(target, run=True))
    except wrong as error:
        return "wrong", str(error)
    except NotEmulatedError as error:
        return "", f"not emulated: {error}"
    return ("right", lines[0]) if lines else ("", f"this machine does not run {target.name}")


def _texts(facts: Any) -> dict[str, str]:
    """Fact → its lines, and part → its value: of all facts that need no binary."""
    found: dict[str, str] = {}
    for each in (facts, facts.further()):
        found |= each.lines() | {name: str(value) for name, value in each.values().items() if "." in name}
    return found


def _work(captures: Captures, case: Case, target: Target) -> dict[str, str]:
    """The fact of the work of a compile, as a number, and its parts. Raises GeneratingError where nothing compiles."""
    from conformance.facts import extract

    try:
        values = extract(counted(captures, case, target)).further().values()
    except GpuFreeWorkerError as error:
        raise GeneratingError(f"{case.id} for {target.name}: {error}") from error
    return {name: str(value) for name, value in values.items() if name.partition(".")[0] == WORK}


def _unmet(compiler: Compiler, case: Case, target: Target, facts: Any, code: str) -> list[str]:
    from conformance.expectations.requirements import RequirementError, check

    def code_of(name: str) -> str:
        with compiler.generate(case.partner(name), target) as result:
            return code_text(result.capture, target)

    try:
        check(case, target, facts, code=code, code_of=code_of)
    except RequirementError as error:
        return [line.strip() for line in str(error).splitlines() if line.startswith("  ")]
    return []


if __name__ == "__main__":
    try:
        status = main()
    except ConformanceError as error:
        print(f"\n{ANSWER}{json.dumps({'error': str(error)})}", flush=True)
        status = 0
    sys.exit(status)
