"""Compiles a case with other inputs, and compares: see cases/other_inputs.py."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from conformance.capture.torch_logs import without_error_logs
from conformance.cases.other_inputs import KINDS, NO_REFUSAL, REFUSED, OtherInputs, variants
from conformance.compiler.case_request import CaseRequest
from conformance.devices.vendor_devices import kernel_language

if TYPE_CHECKING:
    from conformance.capture.model import Mode
    from conformance.capture.result import CaptureResult
    from conformance.cases.case import Case
    from conformance.cases.tolerance_policy import Policy
    from conformance.devices.targets import Target
    from conformance.numerics.comparison import CallComparison, Comparison
    from conformance.numerics.problem import Problem

    #: What gives the context of a capture.
    Captured = Callable[[], contextlib.AbstractContextManager[CaptureResult]]


@dataclass(frozen=True)
class OtherCompiles:
    """The further compiles of a numerics check.

    `capture`: makes a capture. `fn`: the function to compile; without the device, a case's own is for eager alone.
    `emulates`: whether a capture without the device runs emulated. `batched`: whether C++ kernels are compiled
    together.
    """

    capture: Callable[[CaseRequest], contextlib.AbstractContextManager[CaptureResult]]
    fn: Callable[..., Any]
    target: Target
    mode: Mode
    emulates: bool
    batched: bool = True

    def problems(self, case: Case, policy: Policy, comparison: Comparison) -> list[Problem]:
        """The problems with each kind of inputs that `policy.without` does not name.

        Dynamo forgets what it compiled before. `comparison`: gets measurements, and why a variant is skipped.
        """
        chosen = [each for kind in KINDS if kind not in policy.without for each in self._chosen(case, kind, policy)]
        captures, found = self._captures(chosen), []
        for each, captured in zip(chosen, captures, strict=True):
            found += [replace(problem, call=each.other.name) for problem in each.problems(captured)]
            comparison.measurements += each.call.comparison.measurements
            comparison.notes += each.call.comparison.notes
        return found

    def _chosen(self, case: Case, kind: str, policy: Policy) -> list[_Variant]:
        found: list[_Variant] = []
        for other in variants(replace(case, fn=self.fn), kind):
            each = _Variant(other, self._call(other, policy))
            if not each.refusal.startswith(NO_REFUSAL) and bool(each.refusal) == (kind == REFUSED):
                found.append(each)
            if len(found) == KINDS[kind]:
                break
        return found

    def _call(self, other: OtherInputs, policy: Policy) -> CallComparison:
        from conformance.capture.emulation.fake_strides import with_device_strides
        from conformance.numerics.check import Call, call_comparison
        from conformance.numerics.comparison import Comparison

        case = other.case
        if self.mode != "native":
            case = replace(case, fn=with_device_strides(case.fn))
        call = Call("other inputs", other.name, f"other inputs ({other.name})", case.build(0))
        return call_comparison(case, self.target.device, policy, Comparison(), call)

    def _captures(self, chosen: Sequence[_Variant]) -> Iterator[Captured]:
        """What captures each variant."""
        from conformance.capture.toolchain.kernel_batch import KernelBatch
        from conformance.compiler.ahead import AheadCapture, capture_ahead

        batch, ahead = KernelBatch(), dict[str, AheadCapture]()
        cases = {each.other.name: each.other.case for each in chosen}
        if self.batched and self.mode == "native" and kernel_language(self.target.device) == "cpp":
            for name in [each.other.name for each in chosen if not each.refusal]:
                with contextlib.suppress(Exception):  # it is captured alone below, which shows its error
                    made = capture_ahead(cases[name], self.target)
                    made.collect_kernels(batch)
                    ahead[name] = made
            batch.compile()
        for name, case in cases.items():
            request = CaseRequest(case, self.target, self.mode, emulate=self.emulates, texts=False)
            yield ahead[name].resumed if name in ahead else functools.partial(self.capture, request)


@dataclass
class _Variant:
    """A variant that counts. `call`: of eager and compiled with it. `refusal`: what eager raises; "" for nothing."""

    other: OtherInputs
    call: CallComparison
    refusal: str = field(init=False)

    def __post_init__(self) -> None:
        self.refusal = self.call.eager_error()

    def problems(self, captured: Captured) -> list[Problem]:
        """The problems of what is compiled for the variant. Raises what says nothing about the code, such as memory."""
        from conformance.capture.emulation.errors import NotEmulatedError
        from conformance.numerics.comparison import CandidateError, NumericsError
        from conformance.numerics.exceptions import raised_problem
        from conformance.numerics.outcome import ends_the_check

        try:
            with without_error_logs() if self.refusal else contextlib.nullcontext(), captured() as result:
                return self._compared(result)
        except NumericsError as error:  # there is no float64
            self.call.comparison.notes.append(f"{self.call.title}: skipped: {error}")
        except Exception as error:  # noqa: BLE001 - what compiling and calling raise is the problem
            cause = error.__cause__ or error if isinstance(error, CandidateError) else error
            if isinstance(cause, NotEmulatedError):
                self.call.comparison.notes.append(f"{self.call.title}: skipped: {cause}")
                return []
            if ends_the_check(cause):
                raise cause from None
            return [] if self.refusal else [raised_problem(cause)]
        return []

    def _compared(self, result: CaptureResult) -> list[Problem]:
        result.build()
        if result.compiled is None:
            raise TypeError("a capture that does not run has no numerics")
        if self.refusal:
            return self.call.refusal_problems(result.compiled, self.refusal)
        return self.call.problems(result.compiled)
