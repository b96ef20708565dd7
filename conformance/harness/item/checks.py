"""One item: a case compiled once for a target, and the checks of the capture."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

from conformance import facts
from conformance.capture.offline.compiler import build_kernels_of_users
from conformance.cases import custom_operators, outside_tensors
from conformance.cases.case import Case, CaseError
from conformance.cases.selectors import values_for
from conformance.compiler import garbage_collection
from conformance.compiler.backends import UnsupportedCaseError, function_via, with_plain_tuples
from conformance.compiler.case_request import CaseRequest
from conformance.compiler.large_sizes import compared_form
from conformance.compiler.other_inputs import OtherCompiles
from conformance.compiler.random_functions import RANDOM, compared
from conformance.devices.environment import PreparationError
from conformance.devices.targets import Target
from conformance.errors import ConformanceError, NotStoredError, first_line
from conformance.expectations.requirements import BREAKS, undeclared_breaks
from conformance.facts import double_precision
from conformance.generated.capture_texts import code_text
from conformance.harness.item import audit as item_audit
from conformance.harness.item.artifacts import ItemArtifacts
from conformance.harness.item.bits import ItemBits
from conformance.harness.item.capture import ItemCapture
from conformance.harness.item.code import ItemCode
from conformance.harness.item.device import ItemDevice
from conformance.harness.item.errors import (
    OutsideTensorError,
    RaisedError,
    SkipError,
    StaleKnownFailureError,
)
from conformance.harness.item.exclusion import (
    exception_problem,
    generation_problem,
    item_exclusion,
    missing_dtype,
    refuse_uncompiled,
)
from conformance.harness.item.known_failure_lines import LEFT_OUT
from conformance.harness.item.known_failures import ItemKnownFailures, problems_of
from conformance.harness.item.work import record_work
from conformance.harness.overlay.chosen_options import NOT_OCCURRED
from conformance.harness.session import Session
from conformance.normalize.text import canonical_text, snapshot_text
from conformance.numerics.audit import Audit, check_and_audit
from conformance.settings import option_name
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, ItemRecord

if TYPE_CHECKING:
    from conformance.capture.model import Capture
    from conformance.capture.result import CaptureResult
    from conformance.expectations.known_failures import EntryProblem
    from conformance.facts import Facts


class Reporter(Protocol):
    """Reports the checks of an item. subtests.SubtestReporter does it with pytest's subtests."""

    def check(self, name: str) -> contextlib.AbstractContextManager[None]: ...
    def skip(self, reason: str) -> NoReturn: ...
    def known(self, reason: str) -> NoReturn: ...
    def note(self, name: str, value: str) -> None: ...


@dataclass
class Item:
    """A case on a target."""

    session: Session
    case: Case
    target: Target

    @property
    def name(self) -> str:
        return f"{self.case.id}-{self.target.name}"

    def begin(self) -> None:
        """Records that the item runs: after a crash, the record says that it did not end. Raises RunError."""
        record = self.new_record()
        record.checks["compile"] = _NOT_ENDED
        self.session.run.write_item(record)

    def forget(self) -> None:
        """Removes the record of an item that the user interrupted: it counts as not run. One that has ended stays."""
        if not self.session.run.has_ended(self.name):
            self.session.run.remove_item(self.name)

    def new_record(self) -> ItemRecord:
        """An empty record of this item."""
        return ItemRecord(
            case=self.case.id,
            target=self.target.name,
            mode=self.session.mode(self.target),
            torch=self.session.torch,
            store=str(self.session.store(self.case).place),
            known=str(self.session.known_failures_folder(self.case)),
            file=str(self.case.file.absolute()),
            layers={"target": self.target.table} if self.target.table else {},
        )

    def run(self, report: Reporter) -> None:
        """Captures the case once, runs the selected checks and records the results. Raises what compiling raises.

        Each check is reported by itself.
        """
        _ItemRun(self, report).run()


@dataclass(frozen=True)
class _Verdict:
    """What a check came to that did not fail. `issue`: of the known failure that excuses it."""

    outcome: Outcome
    detail: str = ""
    issue: str = ""


class _ItemRun:
    """One run of an item. `record` is written to the run's folder at the end."""

    def __init__(self, item: Item, report: Reporter) -> None:
        self.session, self.case, self.target = item.session, item.case, item.target
        self.name, self.report = item.name, report
        self.record = item.new_record()
        self.mode = self.session.mode(self.target)
        self.device = ItemDevice(item.session, item.target, self.record, report.check)
        self.source = ItemCapture(item.session, item.case, item.target)
        self.known_failures = ItemKnownFailures(item.session, item.case, item.target)
        self.artifacts = ItemArtifacts(item.session, item.case, item.target)
        self.code = ItemCode(item.session, item.case, item.target, self.record)
        self.bits = ItemBits(item.session, item.case, item.target, self.record, self.known_failures)
        self.audit = Audit() if item.session.settings.audit else None
        self.how_compared = ""  # a note of the numerics check, where it is not the usual one

    def run(self) -> None:
        excluded = item_exclusion(self.session, self.case, self.target, self.source)
        if reason := excluded or generation_problem(self.session, self.case, self.target, self.source):
            must_run = not excluded and self.session.names_targets
            self._decline(reason, Outcome.EXCLUDED if excluded else Outcome.SKIPPED, must_run=must_run)
            return
        if reason := exception_problem(self.session, self.case, self.target):
            self._decline(reason, Outcome.SKIPPED, must_run=False)
            return
        before = sum(os.times()[:4])  # of all threads, and of the child processes that it waited for
        try:
            with self.device.checked():
                if self.session.settings.backend_option:
                    self._check_other_backend()
                else:
                    self._capture_and_check()
        except KeyboardInterrupt:
            self.record.checks["compile"] = _NOT_ENDED
            raise
        finally:
            garbage_collection.collect_if_due()
            self._record_audit()
            self.record.cpu_seconds = round(sum(os.times()[:4]) - before, 3)
            self.session.run.write_item(self.record)

    def _decline(self, reason: str, outcome: Outcome, *, must_run: bool) -> None:
        """Ends an item that does not run here. Raises PreparationError if it `must_run`: the user named its target."""
        if must_run:
            self.record.checks["compile"] = CheckResult(Outcome.FAILED, reason)
        try:
            if must_run:
                raise PreparationError(f"{self.name}: {reason}")
            self._conclude("compile", _Verdict(outcome, reason))
        finally:
            self.session.run.write_item(self.record)

    def _capture_and_check(self) -> None:
        with contextlib.ExitStack() as stack:
            found = self._left_out("compile") or self._captured(stack)
            if isinstance(found, _Verdict):
                self._conclude("compile", found)
            else:
                self.record.shared_with = found.shared_with
                self._check_capture(found)
                self.source.share(found, self.record)

    def _check_capture(self, captured: CaptureResult) -> None:
        capture = captured.capture
        found = facts.extract(capture)
        self.record.facts, self.record.fact_values = found.lines(), found.values()
        if not self.target.has_fp64:
            self.record.needs_fp64 = "; ".join(double_precision.reasons(capture))
        if self.case.has_stored_code and not undeclared_breaks(self.case, self.record.fact_values.get(BREAKS)):
            self.record.text = canonical_text(snapshot_text(capture, self.record.facts, self.target.device))
        self.record.seconds = capture.seconds
        self._check_numerics_once(captured)
        self._check("requirements", capture, lambda: self._check_requirements(captured, found))
        self._check("code", capture, self._check_code)
        self._check("binary", capture, lambda: self.code.check_binary(capture))
        self._check("same_bits", capture, lambda: self.bits.check(captured))
        self._check("work", capture, lambda: record_work(self.session, self.case, self.target, self.record))
        if self.session.settings.verify_deviceless:
            self._check("deviceless", capture, lambda: self.code.check_deviceless(capture))
        if self.session.settings.explain:
            self.artifacts.explain()

    def _check_numerics_once(self, captured: CaptureResult) -> None:
        """Checks numerics, unless the same numerics passed before."""
        how = "native" if self.mode == "native" else "emulated"
        emulated = how == "emulated" and self.source.emulates
        reported_name = "numerics (emulated)" if emulated else "numerics"
        if self.source.looked_up.passed_before is not None:
            reported_name = "numerics (passed before)"
        self._check("numerics", captured.capture, lambda: self._check_numerics(captured), reported_name)
        result = self.record.checks.get("numerics")
        if result is None or result.outcome is Outcome.SKIPPED or self.record.reused:
            return
        self.record.evidence = how
        extents = captured.extents()
        self.record.kernels, self.record.shortfalls = extents.kernels, extents.shortfalls
        if extents.shortfalls:
            self.report.note("numerics", "; ".join(extents.shortfalls))
            return  # the summary of each run names it
        if notice := self.source.looked_up.keep(result, how, self.session.run.folder.name, self.name):
            self.record.notices.append(notice)

    def _check_other_backend(self) -> None:
        """Checks the numerics of another backend, TorchScript or an exported program. They have no Inductor code."""
        option = self.session.settings.typed_backend_option

        def skip() -> None:
            raise SkipError(f"{option}: this check is only for Inductor's code")

        self._check("numerics", None, self._check_other_numerics)
        if self.record.outcome("numerics") not in (None, Outcome.SKIPPED):
            self.record.evidence = "native"
        for name in ("requirements", "code"):
            self._check(name, None, skip)

    def _check_other_numerics(self) -> None:
        from conformance.numerics.check import check_numerics

        settings = self.session.settings
        option, device, target = settings.typed_backend_option, self.target.device, self.target.name
        if self.mode != "native":
            raise SkipError(f"{option} needs the device: {self.session.compiler.reason_not_run(self.target)}")
        widest = self.session.widest_cpu_target
        if device == "cpu" and widest is not None and widest != self.target:
            raise SkipError(f"{option} compiles for this CPU and not for {target}: {widest.name} tests the same code")
        try:
            with function_via(self.case, settings.via, settings.backend, device, target) as function:
                check_numerics(with_plain_tuples(self.case, settings.via), function, device, target, option)
        except UnsupportedCaseError as error:
            raise SkipError(f"{option}: {error}") from None

    def _captured(self, stack: contextlib.ExitStack) -> CaptureResult | _Verdict:
        """The capture, whose context `stack` leaves; or the verdict where compiling raises and that is no failure.

        Else raises what compiling raises.
        """
        try:
            return stack.enter_context(self.source.captured())
        except Exception as error:
            if reason := missing_dtype(self.target, error):
                return _Verdict(Outcome.EXCLUDED, reason)
            if verdict := self._excused("compile", error):
                return verdict
            self._record_failure("compile", error)
            shown = self.artifacts.of_exception("compile", error)
            if said := custom_operators.advice(error) or outside_tensors.advice_on(error, self.case):
                raise OutsideTensorError(f"{type(error).__name__}: {first_line(error)}\n{said}") from None
            if isinstance(error, ConformanceError):
                raise
            raise RaisedError(shown) from error

    def _check(self, name: str, capture: Capture | None, body: Callable[[], None], reported_name: str = "") -> None:
        """Makes one check, if it is selected; records and reports its result."""
        if name not in self.session.settings.checks and name != "deviceless":
            return
        if self.case.checks and name not in self.case.checks:
            return
        if reason := self.case.left_out.get(name):
            self.record.checks[name] = CheckResult(Outcome.EXCLUDED, reason)
            return
        with self.report.check(reported_name or name):
            self._conclude(name, self._left_out(name) or self._made(name, capture, body))

    def _conclude(self, check: str, verdict: _Verdict) -> None:
        """Records the verdict on a check and reports it, as the last act of the check: the report of all but a passed
        one is an exception.
        """
        self.record.checks[check] = CheckResult(verdict.outcome, verdict.detail)
        if verdict.outcome is Outcome.STALE:
            raise StaleKnownFailureError(verdict.detail)
        if verdict.outcome is Outcome.KNOWN:
            self.report.known(f"{verdict.detail} ({verdict.issue})")
        if verdict.outcome is not Outcome.PASSED:
            self.report.skip(verdict.detail)

    def _made(self, check: str, capture: Capture | None, body: Callable[[], None]) -> _Verdict:
        """Makes a check. Raises the error of one that fails, with artifacts of `capture`, if there is one."""
        self._note_begun(check)
        try:
            body()
        except SkipError as skipped:
            return _Verdict(Outcome.SKIPPED, str(skipped))
        except Exception as error:
            if verdict := self._excused(check, error):
                return verdict
            self._record_failure(check, error)
            if isinstance(error, AssertionError) and capture and not isinstance(error, NotStoredError):
                problem = self.source.add_texts(capture)
                lines = self.artifacts.of_check(check, error, capture)
                problem += self.known_failures.text_of_new_problems(error)
                problem += self.known_failures.text_of_causes(error)
                problem += self._chosen_options()
                raise type(error)(f"{error}\n\n{problem}{lines}") from None
            if check == "numerics" and not isinstance(error, (AssertionError, ConformanceError)):
                shown = self.artifacts.of_exception(check, error, with_script=capture is not None)
                raise RaisedError(shown) from error
            raise
        stale = self.known_failures.stale_entry(check)
        if verdict := self._wrong_entry(check, stale):
            return verdict
        detail = (self.record.reused or self.how_compared) if check == "numerics" else ""
        if stale and (chosen := self.session.settings.typed_inductor_config):
            detail = f"{NOT_OCCURRED}{chosen}"
        return _Verdict(Outcome.PASSED, detail)

    def _chosen_options(self) -> str:
        """A paragraph that names the options of Inductor that the run chose; "" without such options."""
        chosen = self.session.settings.typed_inductor_config
        return f"compiled with {chosen}, over the case's own options\n\n" if chosen else ""

    def _note_begun(self, check: str) -> None:
        """Numerics run the compiled code, which may crash: then the record says where."""
        if check == "numerics":
            self.record.checks[check] = _NOT_ENDED
            self.session.run.write_item(self.record)

    def _left_out(self, check: str) -> _Verdict | None:
        """The verdict where a known failure says that the check must not run."""
        failure = self.known_failures.entry_that_leaves_out(check)
        if failure is None:
            return None
        self.record.layers |= {check: failure.layer} if failure.layer else {}
        return _Verdict(Outcome.KNOWN, f"{LEFT_OUT}{failure.reason}", failure.issue)

    def _excused(self, check: str, error: Exception) -> _Verdict | None:
        """The verdict where a known failure excuses the error of a check."""
        self.device.note(error)
        failure = self.known_failures.entry_for(check, error)
        if failure is None:
            return None
        if verdict := self._wrong_entry(check, self.known_failures.idle_problem(error)):
            return verdict
        self.record.layers |= {check: failure.layer} if failure.layer else {}
        self.device.note_excused(error)
        self.record.problems += [problem.to_json() for problem in problems_of(error)]
        return _Verdict(Outcome.KNOWN, failure.reason, failure.issue)

    def _record_failure(self, check: str, error: Exception) -> None:
        self.record.checks[check] = CheckResult(Outcome.FAILED, f"{type(error).__name__}: {first_line(error)}")
        if self.session.settings.write_known_failures and not isinstance(error, (PreparationError, CaseError)):
            self.record.raised[check] = f"{type(error).__name__}: {error}"
            self.record.problems += [problem.to_json() for problem in self.known_failures.new_problems(error)]

    def _check_numerics(self, captured: CaptureResult) -> None:
        from conformance.capture.emulation.errors import NotEmulatedError
        from conformance.numerics.conversions import names_a_rounding

        if self.source.looked_up.passed_before is not None:
            self.record.reused = f"numerics passed before: {self.source.looked_up.passed_before}"
            self.report.note("numerics", self.record.reused)
            return
        refuse_uncompiled(self.case, self.target, captured.capture)
        if self.source.emulates:
            build_kernels_of_users(captured.capture)
            if self.target.device == "cpu":
                self._note("emulated by qemu")
        try:
            if self.case.compared_as:
                self._compare_form_that_runs(captured)
            elif captured.worker_numerics is not None:
                if self.audit is not None:
                    self.audit.judgements += captured.judgements
                self.record.error_profiles = list(captured.error_profiles)
                for line in captured.worker_numerics():
                    if line == RANDOM or names_a_rounding(line):
                        self._note(line)
            elif captured.shared_with and (self.source.emulates or self.mode == "native"):
                self.report.note("numerics", f"the code of {captured.shared_with} is the same, and it ran")
            elif captured.compiled is not None:
                self._compare(captured, self.case)
            else:
                raise SkipError(self.session.reason_not_run(self.target))
        except NotEmulatedError as error:
            raise SkipError(f"not emulated: {error}") from None

    def _compare_form_that_runs(self, generated: CaptureResult) -> None:
        """Captures the form of other sizes, and compares it. Raises what that raises."""
        case, emulates = self.case.form_that_runs, self.source.emulates
        if self.mode != "native" and not emulates:
            raise SkipError(self.session.compiler.reason_not_run(self.target))
        with self.session.capture(CaseRequest(case, self.target, self.mode, emulate=emulates)) as captured:
            captured.build()
            self._note(compared_form(self.case, generated.capture, captured.capture, self.target))
            if captured.worker_numerics is not None:
                captured.worker_numerics()
            else:
                self._compare(captured, case)

    def _compare(self, captured: CaptureResult, case: Case) -> None:
        """Runs what was compiled, and compares. Raises NumericsError, and what eager or compiled raises."""
        from conformance.numerics.check import Observed, check_numerics

        session, emulates = self.session, self.source.emulates
        batched = session.settings.kernels == "batched"
        compiles = OtherCompiles(session.capture, case.fn, self.target, self.mode, emulates, batched)
        others = compiles.problems if session.compiles_other_inputs(case) else None
        check = functools.partial(check_numerics, run_options=session.settings.typed_inductor_config)
        check = check if self.audit is None else functools.partial(check_and_audit, self.audit)
        observed, target = Observed(), self.target
        comparing = compared(session.capture, case, target, captured, observed.comparison, emulates=emulates)
        try:
            with comparing as (checked, compiled, note):
                options = {"observed": observed, "already_called": True, "others": others}
                check(checked, compiled, target.device, target.name, **options)
            for line in filter(None, (note, *observed.comparison.roundings)):
                self._note(line)
        finally:
            self.record.error_profiles = observed.comparison.error_profiles.to_json()

    def _note(self, line: str) -> None:
        """Says how numerics were compared, where that is not the usual way."""
        self.how_compared = "; ".join(filter(None, [self.how_compared, line]))
        self.report.note("numerics", line)

    def _record_audit(self) -> None:
        if self.audit is not None:
            result = self.record.checks.get("numerics") or self.record.checks.get("compile")
            why = result.detail if result else "the case does not check numerics"
            how = "native" if self.mode == "native" else "emulated"
            self.record.audit = item_audit.verdicts(
                self.case, self.target, how, self.audit.judgements, self.known_failures, why
            )

    def _check_requirements(self, captured: CaptureResult, facts: Facts) -> None:
        """Checks the case's requirements, and finds its missed optimisations."""
        from conformance.expectations import missed_optimisations, requirements

        capture = captured.capture
        self._skip_if_combined()
        self._skip_without_code(capture)
        self.record.missed, notices = missed_optimisations.find(self.case, self.target, facts)
        if not self.session.settings.inductor_config:  # notices advise to change the case
            self.record.notices += notices
        code = code_text(capture, self.target)
        bits_of = functools.partial(self.bits.verdicts, captured)
        requirements.check(self.case, self.target, facts, code=code, code_of=self.code.of_partner, bits_of=bits_of)

    def _check_code(self) -> None:
        self._skip_if_combined()
        if undeclared_breaks(self.case, self.record.fact_values.get(BREAKS)):
            raise SkipError("a graph break that the case does not declare: its code is neither compared nor stored")
        self.code.check()

    def _skip_if_combined(self) -> None:
        if self.case.combined:
            raise SkipError(
                f"combined by {option_name('thorough')}: only declared cases have requirements and stored code"
            )

    def _skip_without_code(self, capture: Capture) -> None:
        """Skips where compiling raises what eager raises: there is no code for requirements or missed optimisations."""
        from conformance.expectations.requirements import wanted_facts

        wanted = [*wanted_facts(self.case, self.target), *values_for(self.case.missed, self.case, self.target)]
        if capture.error and wanted:
            raise SkipError(f"there is no code to check {', '.join(wanted)}: compiling raises {capture.error}")

    def _wrong_entry(self, check: str, problem: EntryProblem | None) -> _Verdict | None:
        """The verdict on a check whose known failure is wrong; of one that is only a notice, notes it.

        With another seed, a known failure of numerics need not occur, and with other options no known failure.
        """
        settings = self.session.settings
        if problem is None or settings.inductor_config or (check == "numerics" and settings.seed):
            return None
        if problem.severity == "error":
            return _Verdict(Outcome.STALE, problem.message)
        self.record.notices.append(problem.message)
        return None


_NOT_ENDED = CheckResult(Outcome.FAILED, NOT_ENDED)
