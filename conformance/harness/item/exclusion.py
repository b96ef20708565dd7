"""Why an item does not run: the case is not for its target or for this run, or this machine cannot run it."""

from __future__ import annotations

from conformance.capture.model import Capture
from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.cases.tolerance_policy import GRAPHS, Policy
from conformance.devices.cpp_exceptions import exceptions_problem
from conformance.devices.targets import Target
from conformance.devices.vendor_devices import vendor_devices
from conformance.harness.item.capture import ItemCapture
from conformance.harness.session import Session


def item_exclusion(session: Session, case: Case, target: Target, source: ItemCapture) -> str:
    """Why the case is not for this target, torch or run; "" if it is.

    No device is missing on this machine then; a package that the case needs may be.
    """
    if reason := exclusion(case, target):
        return reason
    selected = session.settings.checks
    if case.checks and not set(case.checks) & set(selected):
        return f"{case.id} has only the checks {' and '.join(case.checks)}: this run selects none of them"
    if not _compares_nothing(session, case, target, source):
        return ""
    if "numerics" not in selected:
        return f"{case.id} stores no code, so there is nothing to check without numerics"
    if not session.machine.is_native(target):
        return f"{case.id} stores no code and compares only numerics, and this machine has no {target.name}"
    return ""


def generation_problem(session: Session, case: Case, target: Target, source: ItemCapture) -> str:
    """Why this machine cannot run the item; "" if it can."""
    if problem := session.compiler.generation_problem(target):
        return problem
    return session.compiler.reason_not_run(target) if _compares_nothing(session, case, target, source) else ""


def exception_problem(session: Session, case: Case, target: Target) -> str:
    """Why an item whose kernel raises would end the process; "" if its exception reaches Python."""
    if target.device != "cpu" or session.mode(target) != "native":
        return ""
    return exceptions_problem() if Policy.for_case(case, target.name, target.device).raises else ""


def missing_dtype(target: Target, error: Exception) -> str:
    """Why compiling raised, where the target has no such dtype, as the T4 has no bfloat16; else "".

    A vendor's plugin says it of its device, and of other things that the device has not.
    """
    vendor = vendor_devices().get(target.device)
    for text, reason in (vendor.refusals if vendor else {}).items():
        if text in f"{type(error).__name__}: {error}":
            return reason
    if target.device != "cuda" or target.capability >= (8, 0) or "BF16 is not supported" not in str(error):
        return ""
    return f"{target.name} has no bfloat16, and Inductor compiles no code with it: torch runs it eagerly"


def _compares_nothing(session: Session, case: Case, target: Target, source: ItemCapture) -> bool:
    """Whether the case stores no code by its `checks`, and its numerics do not run here."""
    stores_nothing = bool(case.checks) and not case.has_stored_code
    return stores_nothing and session.mode(target) != "native" and not source.emulates


def refuse_uncompiled(case: Case, target: Target, capture: Capture) -> None:
    """Raises NumericsError where no graph reached Inductor, unless the case says why or expects an exception."""
    from conformance.facts.dynamo import nothing_compiled
    from conformance.numerics import messages
    from conformance.numerics.comparison import NumericsError

    policy = Policy.for_case(case, target.name, target.device)
    if (text := nothing_compiled(capture)) and not policy.raises and GRAPHS not in policy.without:
        raise NumericsError(messages.nothing_compiled(case.id, text))
