"""A process of its own that sees no gpu, for deviceless captures where a real device is, and for comparing with it.

    python -m conformance.harness.gpu_free_worker     # a request a line on stdin, an answer a line on stdout; both JSON

A real device cannot be pretended away in the process that uses it: its guards, its context and its driver are there.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.capture.deviceless.prepare import prepare
from conformance.capture.model import Capture
from conformance.cases.adhoc import OwnCase
from conformance.cases.case import Case
from conformance.devices.environment import HIDDEN
from conformance.devices.targets import Target
from conformance.errors import ConformanceError


class CompanionError(ConformanceError, RuntimeError):
    """The companion could not capture: its own error, or its end."""

    status = 1


class Companion:
    """The process, started at its first capture."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def capture(
        self, case: Case, target: Target, *, explore: bool = False, emulate: bool = False
    ) -> tuple[Capture, Callable[[], list[str]]]:
        """The deviceless capture of a case, and a function that raises what its emulated numerics came to, or says it.

        Raises CompanionError with what compiling raised there.
        """
        process = self._started()
        request = {"file": str(case.file), "case": case.id, "target": target.name, "explore": explore}
        request["emulate"] = emulate
        if isinstance(case, OwnCase):
            request |= {"word": case.word, "asked": case.asked}
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise CompanionError(f"the process without a device ended while it captured {case.id} for {target.name}")
        answer = json.loads(line)
        if "raised" in answer:
            raise CompanionError(answer["raised"])
        check = answer.pop("numerics", None)
        return Capture.from_json(answer), functools.partial(_outcome, check)

    def close(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(timeout=30)
            self._process = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "conformance.harness.gpu_free_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | HIDDEN,
            )
        return self._process


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    from conformance.capture.compile import capture
    from conformance.cases.adhoc import Asked, case_of
    from conformance.cases.loader import cases_in
    from conformance.devices.targets import targets

    if "word" in request:
        asked = Asked(**{name: tuple(v) if isinstance(v, list) else v for name, v in request["asked"].items()})
        case, _ = case_of(request["word"], list(targets()), asked)
    else:
        case = cases_in(Path(request["file"]))[request["case"]]
    target = targets()[request["target"]]
    emulation = None
    if request["emulate"]:
        from conformance.capture.emulation.wrapper import Emulation

        emulation = Emulation(target)
    with capture(case, target, "deviceless", explore=request["explore"], emulation=emulation) as captured:
        answer = captured.capture.to_json()
        if emulation is not None:
            answer["numerics"] = _numerics(case, captured.compiled, target)
    return answer


def _numerics(case: Case, compiled: Callable[..., Any], target: Target) -> dict[str, Any]:
    """What was compared, as told; or what the check raised: the name of its type, its message, and whether it says that
    something is wrong.
    """
    from conformance.capture.emulation.fake_strides import as_on_device
    from conformance.numerics.check import check_numerics

    try:
        return {"told": check_numerics(as_on_device(case), compiled, target.device, target.name).told()}
    except Exception as error:  # noqa: BLE001 - it is raised again where it was asked for
        return {"type": type(error).__name__, "said": str(error), "wrong": isinstance(error, AssertionError)}


def _outcome(numerics: dict[str, Any] | None) -> list[str]:
    """What was compared. Raises an error of the name that it had in the companion: known failures are told by it."""
    from conformance.capture.emulation.errors import NotEmulatedError

    if numerics is None:
        return []
    if "told" in numerics:
        return numerics["told"]
    if numerics["type"] == NotEmulatedError.__name__:
        raise NotEmulatedError(numerics["said"])
    kind = AssertionError if numerics["wrong"] else RuntimeError
    raise type(numerics["type"], (kind,), {})(numerics["said"])


def main() -> None:
    """Serves until stdin ends. What torch prints goes to stderr: stdout is for answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    prepare()
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever compiling raises is the answer
            answer = {"raised": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
