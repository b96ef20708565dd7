"""Captures made ahead of their items, so that the kernels of several items are compiled together.

`capture_ahead` compiles a case and leaves the context of the capture; `AheadCapture.resumed` enters it again. Between
the two, other cases are compiled. Dynamo keeps compiled code on the function's code object, and forgets it at each
reset; so the case's function gets a code object of its own, and Dynamo's lists of code objects are set aside.

Private parts of torch: torch._dynamo.convert_frame.input_codes and output_codes, the code objects that
torch._dynamo.reset() resets, and orig_code_map, which says what each compiled one was compiled from: Dynamo looks it up
to say why it compiles again.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.capture.compile import Compilation
from conformance.capture.model import Capture
from conformance.capture.result import CaptureResult
from conformance.capture.toolchain.kernel_batch import KernelBatch
from conformance.cases import later_calls
from conformance.cases.case import Case
from conformance.cases.function_copies import with_code
from conformance.cases.tolerance_policy import Policy
from conformance.compiler.case_request import CaseRequest
from conformance.devices.targets import Target


class NotAheadError(Exception):
    """The case cannot be captured ahead. The message is the reason."""


class AheadCapture:
    """A native capture of a CPU target that waits for its item."""

    def __init__(self, compilation: Compilation, codes: Sequence[Any]) -> None:
        self._compilation, self._codes = compilation, codes

    @property
    def capture(self) -> Capture:
        return self._compilation.capture

    def collect_kernels(self, batch: KernelBatch) -> None:
        """Loads the wrapper modules. `batch` gets their kernels."""
        if self._compilation.deferred is not None:
            with self._compilation.context(), batch.collecting():
                self._compilation.deferred.collect_kernels()

    @contextlib.contextmanager
    def resumed(self) -> Iterator[CaptureResult]:
        """The context of the capture, as `capture` yields it. Once."""
        with self._compilation.context():
            _give_back(self._codes)
            yield self._compilation.result()


def capture_ahead(case: Case, target: Target) -> AheadCapture:
    """Captures a case natively for a CPU target. Call `resumed` later.

    Raises NotAheadError where only `capture` gives the same: where several functions are compiled, or where the code
    may compile again. Raises what compiling raises.
    """
    if reason := _reason_against(case, target):
        raise NotAheadError(reason)
    request = CaseRequest(case, target, "native", texts=False, defer_build=True)
    compilation = Compilation(request.of_program(_with_code_of_its_own(case.fn)))
    with compilation.context():
        compilation.compile()
        codes = _take_away()
        compiled = codes[1]
        if len(compiled) != 1:
            _give_back(codes)  # for the reset that ends the context
            raise NotAheadError("several functions are compiled, or none")
    return AheadCapture(compilation, codes)


def _reason_against(case: Case, target: Target) -> str:
    policy = Policy.for_case(case, target.name, target.device)
    if case.compared_as:
        return "another form of it runs"
    if policy.raises:
        return "compiling it raises"
    if policy.recompiles:
        return "its numerics compile it again"
    if later_calls.are_counted(case):
        return "its later calls are made too"
    if not isinstance(case.fn, types.FunctionType):
        return "it is no Python function"
    if any(name.endswith("cpp_wrapper") and value for name, value in dict(case.config).items()):
        return "its wrapper is C++"
    return ""


def _with_code_of_its_own(function: Any) -> Any:
    """A copy of a Python function with a copy of its code object: Dynamo keeps what it compiles on the code object."""
    return with_code(function, function.__code__.replace())


def _take_away() -> list[Any]:
    """Empties Dynamo's list of code objects, so that its next reset leaves them. Returns what `_give_back` needs."""
    from torch._dynamo import convert_frame

    trackers = (convert_frame.input_codes, convert_frame.output_codes)
    given, made = ([code for each in tracker.seen if (code := each()) is not None] for tracker in trackers)
    originals = [(code, original) for code in made if (original := convert_frame.orig_code_map.get(code)) is not None]
    for tracker in trackers:
        tracker.clear()
    return [given, made, originals]


def _give_back(codes: Sequence[Any]) -> None:
    from torch._dynamo import convert_frame

    given, made, originals = codes
    for tracker, taken in ((convert_frame.input_codes, given), (convert_frame.output_codes, made)):
        for code in taken:
            tracker.add(code)
    for code, original in originals:
        convert_frame.orig_code_map[code] = original
