"""Explanations: tests that answer a question about a case with the facts, the code or the graph of its capture.

    def test_story_why_is_the_flip_not_vectorised():
        found = explanation(test_hflip, "224-u8-contiguous", target="cpu_avx512")
        assert_expected_inline(found.facts, \"\"\"…\"\"\")

`EXPECTTEST_ACCEPT=1 pytest -n 0 FILE` writes the answer into the test.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from conformance.cases.case import Case, CaseError
from conformance.cases.target_selection import select_targets
from conformance.devices import environment
from conformance.devices.environment import PreparationError
from conformance.devices.targets import targets
from conformance.devices.vendor_devices import deviceless_problem
from conformance.harness.this_process import native_gpus, reason_not_pretended
from conformance.review.accept_command import ACCEPT_WITH

if TYPE_CHECKING:
    from conformance.compiler.gpu_free_worker import GpuFreeWorker
    from conformance.devices.targets import Target


@dataclass(frozen=True)
class Explanation:
    """Texts of a capture, the same on every machine.

    `facts`: one fact a line. `code`: normalised code. `graph`: the joint graph where the case has gradients, otherwise
    the forward graph.
    """

    facts: str
    code: str
    graph: str


def explanation(test: Callable[..., Any], labels: str, *, target: str) -> Explanation:
    """Generates a case's code without running it. `test`: a function decorated with @case; `labels`: as in its id.

    Skips the test that calls it on another torch than the one that explanations are written for, and where no code can
    be generated for the target. Outside a test, raises PreparationError for the latter. Raises CaseError and
    TargetError for unknown names.
    """
    from conformance.compiler.case_request import CaseRequest, capture
    from conformance.generated.capture_texts import code_text, facts_text, graph_text

    _tests.add(_current_test())
    case = _case(test, labels)
    row = select_targets(targets().values(), None, target)[0]
    if reason := _skip_reason(row):
        _skip(reason)
    environment.disable_trace_records()
    if row.device != "cpu" and native_gpus():  # then this process pretends no GPU, of any type
        result = _gpu_free_worker().capture(CaseRequest(case, row)).capture
    else:
        with capture(CaseRequest(case, row)) as captured:
            result = captured.capture
    return Explanation(facts_text(result), code_text(result, row), graph_text(result, row))


#: Node ids of the tests in this process that called `explanation`.
_tests: set[str] = set()


def _current_test() -> str:
    """The node id of the test that runs; "" outside a test."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def mismatch_message(node_id: str, error: BaseException) -> str:
    """The message for an explanation that differs from the test's literal, with the command that accepts it.

    "" for any other error. expecttest's own message lacks `-n 0`: workers do not accept.
    """
    message, advice, _ = str(error).partition("To accept the new output, re-run test with")
    if node_id not in _tests or not isinstance(error, AssertionError) or not advice:
        return ""
    return f"{message.strip()}\n\n{ACCEPT_WITH}EXPECTTEST_ACCEPT=1 pytest -n 0 '{node_id}'"


def _case(test: Callable[..., Any], labels: str) -> Case:
    cases = {"-".join(case.labels): case for case in getattr(test, "cases", ())}
    if not cases:
        raise CaseError(f"explanation: {getattr(test, '__name__', test)!r} is not decorated with @case")
    if labels not in cases:
        raise CaseError(f"explanation: {test.__name__} has no case {labels!r}; it has {', '.join(cases)}")
    return cases[labels]


def _skip_reason(target: Target) -> str:
    """Why this process cannot explain a case on the target; "" where it can."""
    from conformance.devices.torch_releases import STRICT
    from conformance.storage.snapshots import torch_release

    if problem := deviceless_problem(target.device):
        return f"explanations are generated without the device, and {problem}"
    if _current_test() and torch_release(environment.torch_build().version) != STRICT:
        return f"this explanation is written for torch {STRICT}"
    return reason_not_pretended(target)


@functools.cache
def _gpu_free_worker() -> GpuFreeWorker:
    """The worker that captures without a device, on a machine with a GPU."""
    from conformance.compiler.gpu_free_worker import GpuFreeWorker

    worker = GpuFreeWorker()
    atexit.register(worker.close)
    return worker


def _skip(reason: str) -> NoReturn:
    """Skips the test that runs. Outside a test, raises PreparationError."""
    if _current_test():
        import pytest

        pytest.skip(reason)
    raise PreparationError(reason)
