"""The suite in this process: its items, the text of an item, and the two checks that judge a mutant."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance.cases.case import Case
from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.cases.selectors import exclusion
from conformance.cases.target_selection import select_targets
from conformance.compiler.case_request import CaseRequest
from conformance.devices.machine import Machine
from conformance.devices.targets import Target
from conformance.generated.capture_texts import code_text
from conformance.harness.item.known_failures import ItemKnownFailures, problems_of
from conformance.harness.session import Session
from conformance.normalize.text import canonical_text
from conformance.settings import Settings
from conformance.storage.runs import Run

#: The first runs natively where the machine has it, the second emulated.
TARGETS = ("cpu_avx512", "cuda_sm90")


class TooSlowError(Exception):
    """An item took longer than its time."""


@dataclass
class Verdict:
    """What the checks of one item say. `error`: type and text of what compiling, building or running raised."""

    crash: str = ""
    requirements: str = ""
    numerics: str = ""
    calls: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    skipped: str = ""

    @property
    def found(self) -> bool:
        return bool(self.crash or self.requirements or self.numerics)


class Suite:
    """Make it before torch is imported. All items run in this process, on one thread."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        settings = Settings(checks=("numerics", "requirements"), kernels="alone", captures="alone", fresh=True)
        self.session = Session(settings, Machine.detect(), Run(Path(self._folder.name)), workers=1 << 20)
        self.session.prepare()
        all_targets = self.session.machine.targets().values()
        self.targets = {name: select_targets(all_targets, None, name)[0] for name in TARGETS}
        self.cases = {case.id: case for case in cases_below([OPS])}
        self.session.set_up_torch()

    def items(self, cases: int = 0) -> list[tuple[str, str]]:
        """All items that can be generated, as (case id, target name): the first case of each function first.

        `cases`: at most so many cases of each function; 0 for all.
        """
        seen: dict[tuple[Path, str], int] = {}
        order = []
        for case in self.cases.values():
            number = seen[case.file, case.name] = seen.get((case.file, case.name), -1) + 1
            order += [
                (number, (case.id, target.name))
                for target in self.targets.values()
                if not exclusion(case, target) and not self.session.compiler.generation_problem(target)
            ]
        return [item for number, item in sorted(order, key=lambda each: each[0]) if not cases or number < cases]

    def known_to_fail(self, item: tuple[str, str]) -> bool:
        """Whether a known failure says that an item's compile or numerics must not run."""
        case, target = self._parts(item)
        known = ItemKnownFailures(self.session, case, target)
        return any(known.entry_that_leaves_out(check) for check in ("compile", "numerics", "requirements"))

    def text(self, item: tuple[str, str]) -> str:
        """The text of an item's snapshot, generated without the device. Raises what compiling raises."""
        from conformance import facts
        from conformance.normalize.text import snapshot_text

        case, target = self._parts(item)
        with self.session.capture(CaseRequest(case, target, texts=False)) as result:
            capture = result.capture
            return canonical_text(snapshot_text(capture, facts.extract(capture).lines(), target.device))

    def judge(self, item: tuple[str, str], seconds: int) -> Verdict:
        """Runs the item's requirements and numerics, as the suite does, except what known failures excuse.

        Raises TooSlowError after `seconds`.
        """
        with _at_most(seconds):
            return self._judge(*self._parts(item))

    def _judge(self, case: Case, target: Target) -> Verdict:
        from conformance import facts

        known = ItemKnownFailures(self.session, case, target)
        verdict = Verdict()
        mode = self.session.mode(target)
        try:
            request = CaseRequest(case, target, mode, emulate=mode == "deviceless", texts=False)
            with self.session.capture(request) as captured:
                try:
                    self._check_requirements(case, target, captured.capture, facts.extract(captured.capture))
                except AssertionError as error:
                    if not known.entry_for("requirements", error):
                        verdict.requirements = _text(error)
                self._check_numerics(case, target, captured, known, verdict)
        except TooSlowError:
            raise
        except Exception as error:  # noqa: BLE001 -- a mutant may raise anything
            if not known.entry_for("compile", error):
                verdict.crash = _text(error)
        return verdict

    def _check_requirements(self, case: Case, target: Target, capture: Any, facts: Any) -> None:
        from conformance.expectations import requirements

        if capture.error:
            return  # compiling raises what eager raises: there is no code
        code = code_text(capture, target)
        requirements.check(case, target, facts, code=code, code_of=lambda name: self._partner_code(case, target, name))

    def _partner_code(self, case: Case, target: Target, name: str) -> str:
        with self.session.capture(CaseRequest(case.partner(name), target, texts=False)) as captured:
            return code_text(captured.capture, target)

    def _check_numerics(
        self, case: Case, target: Target, captured: Any, known: ItemKnownFailures, verdict: Verdict
    ) -> None:
        from conformance.capture.emulation.errors import NotEmulatedError
        from conformance.capture.emulation.fake_strides import with_device_strides
        from conformance.numerics.check import NumericsError, check_numerics

        if case.checks and "numerics" not in case.checks:
            verdict.skipped = "the case does not check numerics"
            return
        checked = case if captured.capture.mode == "native" else replace(case, fn=with_device_strides(case.fn))
        try:
            check_numerics(checked, captured.compiled, target.device, target.name, already_called=True)
        except NotEmulatedError as error:
            verdict.skipped = f"not emulated: {error}"
        except NumericsError as error:
            if known.entry_for("numerics", error):
                return
            verdict.numerics = _text(error)
            new = known.unexcused(problems_of(error))
            verdict.calls = sorted({problem.call for problem in new})
            verdict.rules = sorted({problem.rule for problem in new})
        except TooSlowError:
            raise
        except Exception as error:  # noqa: BLE001 -- what the compiled code raised
            if not known.entry_for("numerics", error):
                verdict.crash = _text(error)

    def _parts(self, item: tuple[str, str]) -> tuple[Case, Target]:
        return self.cases[item[0]], self.targets[item[1]]


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


@contextlib.contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlowError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
