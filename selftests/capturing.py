"""Captures of functions that are not cases of the suite, in one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.capture.deviceless.prepare import prepare
from conformance.capture.model import Capture
from conformance.cases.case import Case
from conformance.cases.inputs import Input
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets
from conformance.facts import Facts, extract

prepare()  # before anything imports torch


def captured(fn, target="cpu_avx512", *, grad="", dynamic=False, config=None, **arguments: Any) -> Capture:
    """The capture of `fn` for `target`, without the device. `arguments`: as a case declares them. `grad`: names."""
    choices = {name: each.properties for name, each in arguments.items() if isinstance(each, Input)}
    case = Case(
        operator="facts",
        name=fn.__name__,
        labels=(),
        fn=fn,
        file=Path(__file__),
        arguments=arguments,
        choices=choices,
        grad=tuple(grad.split()),
        dynamic=dynamic,
        config=config or {},
    )
    with capture(CaseRequest(case, targets()[target])) as result:
        return result.capture


def facts_of(fn, target="cpu_avx512", **options: Any) -> Facts:
    """The facts of `captured` with the same arguments."""
    return extract(captured(fn, target, **options))
