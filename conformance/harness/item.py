"""One item: a case compiled once for a target, and the checks that look at the capture."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, Protocol

from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.devices.targets import Target
from conformance.errors import ConformanceError, first_line
from conformance.harness import artifacts
from conformance.harness.session import Session
from conformance.review.diff import difference
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Snapshot, canonical, release

if TYPE_CHECKING:
    from conformance.capture.compile import CaptureResult
    from conformance.capture.model import Capture
    from conformance.expectations.known_failures import KnownFailure


class Reporter(Protocol):
    """How the harness says what became of a check; pytest's subtests are one."""

    def check(self, name: str) -> contextlib.AbstractContextManager[None]: ...
    def skip(self, reason: str) -> NoReturn: ...
    def known(self, reason: str) -> NoReturn: ...


class SkipError(Exception):
    """A check that has nothing to look at; the message is the reason."""


class CodeError(ConformanceError, AssertionError):
    """Generated code that is not what is stored."""


class DevicelessError(ConformanceError, AssertionError):
    """Code generated without the device that is not the device's own."""


class StaleKnownFailureError(ConformanceError, AssertionError):
    """A known failure that passes."""


@dataclass
class Item:
    """A case on a target."""

    session: Session
    case: Case
    target: Target
    _record: ItemRecord | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.case.id}-{self.target.name}"

    def run(self, report: Reporter) -> None:
        """Captures once and runs the selected checks, each reporting by itself; raises what compiling raises."""
        session = self.session
        if why := session.cannot(self.target) or exclusion(self.case, self.target):
            self._record = self._begun()
            self._record.checks["compile"] = CheckResult(Outcome.SKIPPED, why)
            session.run.write(self._record)
            report.skip(why)
        record = self._record = self._begun()
        before = _cpu_seconds()
        try:
            if session.settings.backend_option:
                self._run_plainly(record, report)
            else:
                self._run(record, report)
        finally:
            record.cpu_seconds = round(_cpu_seconds() - before, 3)
            session.run.write(record)

    def _begun(self) -> ItemRecord:
        session = self.session
        return ItemRecord(
            case=self.case.id,
            target=self.target.name,
            mode=session.mode(self.target),
            torch=session.torch,
            store=str(session.store(self.case).root),
            known=str(session.known_folder(self.case)),
        )

    def _run(self, record: ItemRecord, report: Reporter) -> None:
        from conformance import facts
        from conformance.expectations import missed_optimisations, requirements
        from conformance.normalize.text import snapshot_text

        with self._compiled(record, report) as captured:
            capture = captured.capture
            found = facts.facts(capture)
            record.facts = found.lines()
            if not self.case.combined:
                record.text = canonical(snapshot_text(capture, record.facts, self.target.device))
            record.seconds = capture.seconds

            def required() -> None:
                self._refuse_combined()
                self._refuse_without_code(capture)
                record.missed, closed = missed_optimisations.find(self.case, self.target, found)
                record.notices += closed
                code = code_text(capture, self.target)
                requirements.check(self.case, self.target, found, code=code, code_of=self._partner_code)

            shown = (
                "numerics (emulated)"
                if (captured.compiled or captured.worker_numerics) and record.mode != "native"
                else "numerics"
            )
            self._check("numerics", report, capture, functools.partial(self._numerics, captured), shown)
            if record.outcome("numerics") not in (None, Outcome.SKIPPED):
                record.evidence = "native" if record.mode == "native" else "emulated"
            self._check("requirements", report, capture, required)
            self._check("code", report, capture, self._code)
            self._check("binary", report, capture, functools.partial(self._binary, capture))
            if self.session.settings.verify_deviceless:
                self._check("deviceless", report, capture, functools.partial(self._deviceless, capture))

    def _run_plainly(self, record: ItemRecord, report: Reporter) -> None:
        """Another backend, TorchScript or an exported program: no generated code to look at, its numerics alone."""
        settings = self.session.settings

        def plain_numerics() -> None:
            from conformance.capture.backends import UnsupportedCaseError, function_via, with_plain_tuples
            from conformance.numerics.check import check_numerics

            if record.mode != "native":
                raise SkipError(f"{settings.backend_option} needs the device: {self.session.not_run(self.target)}")
            where = self.target.device, self.target.name
            try:
                with function_via(self.case, settings.via, settings.backend, *where) as function:
                    check_numerics(with_plain_tuples(self.case, settings.via), function, *where, settings.backend_option)
            except UnsupportedCaseError as error:
                raise SkipError(f"{settings.backend_option}: {error}") from None

        def none() -> None:
            raise SkipError(f"{settings.backend_option}: no code of Inductor's to look at")

        self._check("numerics", report, None, plain_numerics)
        for name in ("requirements", "code"):
            self._check(name, report, None, none)

    @contextlib.contextmanager
    def _compiled(self, record: ItemRecord, report: Reporter) -> Iterator[CaptureResult]:
        """The capture; an error while compiling is the item's own, or a known failure of "compile"."""
        with contextlib.ExitStack() as stack:
            try:
                captured = stack.enter_context(self._captured(record))
            except Exception as error:
                record.checks["compile"] = CheckResult(Outcome.FAILED, _said(error))
                if failure := self._known("compile", error):
                    record.checks["compile"] = CheckResult(Outcome.KNOWN, failure.reason)
                    report.known(f"{failure.reason} ({failure.issue})")
                raise
            yield captured

    def _captured(self, record: ItemRecord) -> contextlib.AbstractContextManager[CaptureResult]:
        emulate = "numerics" in self.session.settings.checks and not self.session.not_emulated(self.target)
        return self.session.captured(self.case, self.target, record.mode, emulate=emulate and record.mode != "native")

    def _check(
        self, name: str, report: Reporter, capture: Capture | None, body: Callable[[], None], shown: str = ""
    ) -> None:
        """One check: reported by itself, recorded, excused where the failure is known, its evidence kept where not.

        `shown`: another name to report it by.
        """
        record = self._record
        if name not in self.session.settings.checks and name != "deviceless":
            return
        with report.check(shown or name):
            try:
                body()
            except SkipError as skipped:
                record.checks[name] = CheckResult(Outcome.SKIPPED, str(skipped))
                report.skip(str(skipped))
            except Exception as error:
                if failure := self._known(name, error):
                    record.checks[name] = CheckResult(Outcome.KNOWN, failure.reason)
                    report.known(f"{failure.reason} ({failure.issue})")
                record.checks[name] = CheckResult(Outcome.FAILED, _said(error))
                if isinstance(error, AssertionError) and capture is not None:
                    folder = artifacts.keep(self.session.run.evidence(self.name), self.case, self.target, capture)
                    raise type(error)(f"{error}\n\nevidence: {folder}") from None
                raise
            self._refuse_stale(name)
            record.checks[name] = CheckResult(Outcome.PASSED)

    def _numerics(self, captured: CaptureResult) -> None:
        from conformance.capture.emulation.errors import NotEmulatedError
        from conformance.capture.emulation.fake_strides import as_on_device
        from conformance.numerics.check import check_numerics

        if captured.compiled is None and captured.worker_numerics is None:
            raise SkipError(self._not_run())
        case = self.case if self._record.mode == "native" else as_on_device(self.case)
        try:
            if captured.worker_numerics is not None:
                captured.worker_numerics()
            else:
                check_numerics(case, captured.compiled, self.target.device, self.target.name, already_called=True)
        except NotEmulatedError as error:
            raise SkipError(f"not emulated: {error}") from None

    def _not_run(self) -> str:
        why = "" if self.target.device == "cpu" else self.session.not_emulated(self.target)
        return self.session.not_run(self.target) + (f" ({why})" if why else "")

    def _deviceless(self, native: Capture) -> None:
        """The same case generated without the device must give the text that the real one gave."""
        from conformance import facts
        from conformance.normalize.text import snapshot_text

        if native.mode != "native" or self.target.device == "cpu":
            raise SkipError("nothing to compare: this capture does not come from a real gpu")
        other = self.session.gpu_free_worker.capture(self.case, self.target)[0]
        text = snapshot_text(other, facts.facts(other).lines(), self.target.device)
        if found := difference(self._record.text, text):
            raise DevicelessError(f"{self.name}: generated without the device, it differs: {found.message}")

    def _code(self) -> None:
        """The snapshot's text against what is stored, or against the baseline run."""
        self._refuse_combined()
        session, text = self.session, self._record.text
        if self.target.local:
            raise SkipError(f"{self.target.name} matches no target of the table: nothing is stored for it")
        if session.settings.accept == "all":
            return
        if session.baseline is not None:
            before = session.baseline.item(self.case.id, self.target.name)
            if before is None or not before.text:
                raise SkipError(f"the run {session.settings.baseline} has no {self.name}")
            stored, accept = before.text, ""
        else:
            store = session.store(self.case)
            snapshot = store.read(self.case.id)
            stored = snapshot.text(session.torch, self.target.name) if snapshot else None
            if stored is not None and self.target.device != "cpu":
                self._record.confirmed = snapshot.is_confirmed(session.torch, self.target.name)
            accept = accept_command(self.case, self.target)
            if stored is None and session.settings.accept == "new":
                return
            if stored is None:
                self._nothing_stored(snapshot, accept)
                return
        if found := difference(stored, text, accept):
            raise CodeError(f"{self.name}: {found.message}")

    def _binary(self, capture: Capture) -> None:
        """Every kernel compiled, natively or not; what the binaries say against what is stored for this Triton."""
        from conformance.facts import binary
        from conformance.storage import binaries

        record, session = self._record, self.session
        if capture.error:
            raise SkipError(f"no code: compiling raises {capture.error}")
        if self.target.device == "cpu":
            raise SkipError("cpu kernels are not Triton's")
        record.binaries = binary.lines(capture)
        if not record.binaries:
            raise SkipError("it has no Triton kernel")
        if binary.ended(capture):
            return  # as far as the installed Triton can
        if record.evidence == "generated":
            record.evidence = "compiled"
        if self.case.combined or self.target.local or session.settings.accept == "all":
            return
        file = binaries.path(session.store(self.case).root, self.case.id)
        stored = binaries.read(file)
        if stored.lines and not stored.is_of(session.torch):
            return  # another ptxas gives other numbers
        before = stored.of(self.case.id, self.target.name)
        if before is None and session.settings.accept == "new":
            return
        accept = f"{accept_command(self.case, self.target)} --checks binary"
        binaries.compare(self.name, before, record.binaries, accept)

    def _refuse_combined(self) -> None:
        if self.case.combined:
            raise SkipError("combined by --thorough: requirements and stored code are for what is declared")

    def _refuse_without_code(self, capture: Capture) -> None:
        """Where compiling raises what eager raises, nothing can be required of code, nor be missed in it."""
        from conformance.cases.selectors import values_for
        from conformance.expectations.requirements import wanted_facts

        wanted = [*wanted_facts(self.case, self.target), *values_for(self.case.missed, self.case, self.target)]
        if capture.error and wanted:
            raise SkipError(f"no code to ask for {', '.join(wanted)}: compiling raises {capture.error}")

    def _nothing_stored(self, snapshot: Snapshot | None, accept: str) -> None:
        """New on a version that is stored; on another version the nearest is looked at, and differing is drift."""
        session = self.session
        store = session.store(self.case)
        versions = [v for v in snapshot.versions() if snapshot.text(v, self.target.name)] if snapshot else []
        if not versions or session.is_stored_version(store):
            raise CodeError(
                f"{self.name}: nothing is stored for torch {release(session.torch)}\n\naccept it with: {accept}"
            )
        nearest = min(versions, key=lambda version: _distance(version, session.torch))
        found = difference(snapshot.text(nearest, self.target.name), self._record.text)
        if found is None:
            return
        self._record.drift = f"from torch {nearest}: {'; '.join(found.facts) or 'facts unchanged'}"
        if session.settings.fail_on_drift:
            raise CodeError(f"{self.name}: drift from torch {nearest}: {found.message}")

    def _partner_code(self, name: str) -> str:
        """The code of the function `test_<name>` of the same file with the same labels; generated once a process."""
        partner = _partner(self.case, name)
        key = (partner.id, self.target.name)
        if key not in self.session.codes:
            mode = "deviceless" if self.target.device == "cpu" else self.session.mode(self.target)
            with self.session.captured(partner, self.target, mode) as captured:
                self.session.codes[key] = code_text(captured.capture, self.target)
        return self.session.codes[key]

    def _known(self, check: str, error: Exception) -> KnownFailure | None:
        return self.session.known(self.case).match(
            self.case.id,
            check,
            self.target.name,
            self.session.torch,
            f"{type(error).__name__}: {error}",
            self._record.mode,
        )

    def _refuse_stale(self, check: str) -> None:
        problem = self.session.known(self.case).stale_entry(
            self.case.id, check, self.target.name, self.session.torch, self._record.mode
        )
        if problem is None:
            return
        if problem.severity == "error":
            self._record.checks[check] = CheckResult(Outcome.STALE, problem.message)
            raise StaleKnownFailureError(problem.message)
        self._record.notices.append(problem.message)


def _cpu_seconds() -> float:
    """Of this process, all of its threads, and of those that it has waited for."""
    return sum(os.times()[:4])


def code_text(capture: Capture, target: Target) -> str:
    """The normalised kernels and calls alone, as two cases are compared by."""
    from conformance.normalize.rules import normalise

    return "\n".join(normalise(module.code, target.device) for module in capture.modules)


def accept_command(case: Case, target: Target) -> str:
    """What to type to take this text as the new snapshot."""
    labels = "-".join((*case.labels, target.name))
    file = os.path.relpath(case.file)
    return f"EXPECTTEST_ACCEPT=1 pytest '{file}::test_{case.name}[{labels}]'"


def _partner(case: Case, name: str) -> Case:
    function = case.fn.__globals__.get(f"test_{name}")
    for other in getattr(function, "cases", ()):
        if other.labels == case.labels:
            return other
    raise LookupError(f"{case.id}: there is no test_{name} with the labels {'-'.join(case.labels)}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _distance(version: str, torch: str) -> tuple[int, ...]:
    numbers = [[int(part) for part in release(text).split(".")] for text in (version, torch)]
    return tuple(abs(a - b) for a, b in zip(*numbers, strict=True))
