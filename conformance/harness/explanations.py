"""Stories: the answer to a question about a case, written down in a test.

    def test_story_why_is_the_flip_not_vectorised():
        seen = explanation(test_hflip, "224-u8-contiguous", target="cpu_avx512")
        assert_expected_inline(seen.facts, \"\"\"…\"\"\")

`EXPECTTEST_ACCEPT=1 pytest -n 0 FILE` writes the answer.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from conformance.cases.case import Case, CaseError

if TYPE_CHECKING:
    from conformance.devices.targets import Target
    from conformance.harness.gpu_free_worker import GpuFreeWorker


@dataclass(frozen=True)
class Explanation:
    """Texts of a capture, the same on any machine. `facts`: a fact a line. `code`: normalised. `graph`: the joint graph
    where there are gradients, else the forward one.
    """

    facts: str
    code: str
    graph: str


def explanation(test: Callable[..., Any], labels: str, *, target: str) -> Explanation:
    """Generates a case's code without running it. `test`: a function decorated with @case; `labels`: as in its id.

    Under pytest, skips on another torch than that which stories are written for, and where no code can be generated
    for the target. Elsewhere raises PreparationError for that. Raises CaseError and TargetError for unknown names.
    """
    from conformance.capture.compile import capture
    from conformance.devices import environment
    from conformance.devices.targets import select_targets, targets
    from conformance.harness.generator import code_text, facts_text, graph_text

    _told.add(_current_test())
    case = _case(test, labels)
    row = select_targets(targets().values(), None, target)[0]
    if why := _impossible(row):
        _give_up(why)
    environment.disable_trace_records()
    if row.device in _gpus():
        made = _gpu_free_worker().capture(case, row)
    else:
        with capture(case, row, "deviceless") as captured:
            made = captured.capture
    return Explanation(facts_text(made), code_text(made, row), graph_text(made, row))


#: Node ids of tests that tell one, in this process.
_told: set[str] = set()


def _current_test() -> str:
    """The node id of the test that runs, "" outside pytest."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def mismatch(node_id: str, error: BaseException) -> str:
    """What to print for a story whose literal is not what it tells, with the command that accepts; "" for any other
    failure.

    expecttest advises to set EXPECTTEST_ACCEPT, which is not enough where pytest is told elsewhere to use workers.
    """
    said, advice, _ = str(error).partition("To accept the new output, re-run test with")
    if node_id not in _told or not isinstance(error, AssertionError) or not advice:
        return ""
    return f"{said.strip()}\n\naccept it with: EXPECTTEST_ACCEPT=1 pytest -n 0 '{node_id}'"


def _case(test: Callable[..., Any], labels: str) -> Case:
    cases = {"-".join(case.labels): case for case in getattr(test, "cases", ())}
    if not cases:
        raise CaseError(f"story: {getattr(test, '__name__', test)!r} is not decorated with @case")
    if labels not in cases:
        raise CaseError(f"story: {test.__name__} has no case {labels!r}; it has {', '.join(cases)}")
    return cases[labels]


def _impossible(target: Target) -> str:
    """Why the story of this target cannot be told in this process, or ""."""
    from conformance.devices import environment
    from conformance.expectations.known_failures import BASELINE
    from conformance.storage.snapshots import release

    if _current_test() and release(environment.torch_build().version) != BASELINE:
        return f"written for torch {BASELINE}"
    from conformance.capture.deviceless.prepare import prepare

    prepared = prepare(_gpus())
    if target.device == "cpu" or target.device in _gpus():
        return ""
    if not environment.triton_version():
        return "Triton is not installed: pip install triton"
    return "" if target.device in prepared.pretended_devices else prepared.problem


@functools.cache
def _gpus() -> tuple[str, ...]:
    """Device types that are really here."""
    from conformance.devices.machine import Machine

    return tuple(Machine.detect().gpus)


@functools.cache
def _gpu_free_worker() -> GpuFreeWorker:
    """A process that sees no gpu, for machines with one."""
    from conformance.harness.gpu_free_worker import GpuFreeWorker

    worker = GpuFreeWorker()
    atexit.register(worker.close)
    return worker


def _give_up(why: str) -> NoReturn:
    if _current_test():
        import pytest

        pytest.skip(why)
    from conformance.devices.environment import PreparationError

    raise PreparationError(why)
