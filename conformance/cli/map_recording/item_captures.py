"""The capture of one item, as a function that a forked process calls."""

from __future__ import annotations

from collections.abc import Callable

from conformance.capture.invoke import error_text
from conformance.cases.case import Case
from conformance.compiler.case_request import CaseRequest
from conformance.coverage.coverage_map import CoverageError
from conformance.devices.targets import Target
from conformance.harness.item.checks import Item
from conformance.harness.item.exclusion import missing_dtype
from conformance.harness.session import Session


def capture_case(session: Session, case: Case, target: Target) -> None:
    with session.compiler.capture(CaseRequest(case, target, texts=False)):
        pass


def name_of(item: Item) -> tuple[str, str]:
    return item.case.id, item.target.name


def capture_of(item: Item) -> Callable[[], None]:
    """A function that captures an item. It raises CoverageError where compiling fails and nothing says that it does."""

    def capture() -> None:
        session, case, target = item.session, item.case, item.target
        try:
            capture_case(session, case, target)
        except Exception as error:
            known = session.known_failures_of(case).entry_for(
                case.id, "compile", target.name, session.torch, "deviceless"
            )
            if not (known or missing_dtype(target, error)):
                raise CoverageError(error_text(error).strip().splitlines()[0]) from error

    return capture
