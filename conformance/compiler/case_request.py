"""A request for the capture of a case, and the program that the generator gets for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.capture.model import Mode
from conformance.capture.program import Arguments, Program, torch_compile
from conformance.capture.request import CaptureRequest
from conformance.cases import later_calls
from conformance.cases.case import Case
from conformance.cases.tolerance_policy import Policy
from conformance.cases.wanted_matches import wanted_matches_of
from conformance.devices.targets import Target

if TYPE_CHECKING:
    from conformance.capture.emulation.wrapper import Emulation
    from conformance.capture.result import CaptureResult


@dataclass(frozen=True)
class CaseRequest:
    """A capture of `case` for `target`, without the device unless `mode` says otherwise.

    `form`: what of the case torch.compile gets, one of compiled_forms.FORMS. `explore`, `emulate`, `texts`,
    `defer_build`, `counts_calls`: as in capture/request.py; from the GPU-free worker, `texts` are with graphs.

    Of the GPU-free worker alone: `shares`: a capture of another target will do if it is the same and nothing else is
    asked for. `audit`: with `emulate`, also judge the case's opt-outs. `other_inputs`: with `emulate`, also compile the
    case with other inputs (cases/other_inputs.py). `repeats`: compile so many repetitions of the function
    (cases/repeated_case.py).
    """

    case: Case
    target: Target
    mode: Mode = "deviceless"
    form: str = "whole"
    explore: bool = False
    emulate: bool = False
    texts: bool = True
    defer_build: bool = False
    shares: bool = False
    audit: bool = False
    other_inputs: bool = False
    counts_calls: bool = False
    repeats: int = 1

    def of_program(self, fn: Callable[..., Any] | None = None) -> CaptureRequest:
        """What the generator is asked. `fn`: the function to compile instead of the case's own."""
        return CaptureRequest(
            program_of(self.case, self.target, self.form, fn),
            self.target,
            "deviceless" if self.case.compared_as else self.mode,  # its tensors have no memory
            explore=self.explore,
            emulate=self.emulate and not self.case.compared_as,
            texts=self.texts,
            defer_build=self.defer_build,
            counts_calls=self.counts_calls,
        )


@contextlib.contextmanager
def capture(request: CaseRequest, emulation: Emulation | None = None) -> Iterator[CaptureResult]:
    """Captures what `request` asks for, as capture.compile.capture does.

    Raises what that raises, and CompiledFormError for a case that has no such form.
    """
    from conformance.capture import compile as generator

    with generator.capture(request.of_program(), emulation) as result:
        yield result


def program_of(case: Case, target: Target, form: str = "whole", fn: Callable[..., Any] | None = None) -> Program:
    """A case as the generator sees it. `form`: one of compiled_forms.FORMS. `fn`: a function instead of its own."""

    def policy() -> Policy:
        return Policy.for_case(case, target.name, target.device)

    def compile_form(_program: Program, function: Callable[..., Any], device: str) -> Callable[..., Any]:
        from conformance.compiler.compiled_forms import compiled_function

        return compiled_function(case, function, form, device)

    def calls_after() -> Iterator[tuple[str, Arguments]]:
        for name, arguments in later_calls.later_calls(case, policy()):
            yield name, ((), arguments)

    return Program(
        case.id,
        fn or case.fn,
        lambda: ((), first_arguments(case)),
        dynamic=case.dynamic,
        config=dict(case.config),
        mode=case.mode,
        without_memory=bool(case.compared_as),
        may_raise=lambda: bool(policy().raises),
        patterns=wanted_matches_of(case),
        later_calls=calls_after if later_calls.are_counted(case) else None,
        compile=torch_compile if form == "whole" else compile_form,
    )


def first_arguments(case: Case) -> dict[str, Any]:
    """The arguments of the first call, with the declared sizes: build() makes those of the compared form."""
    return case.assemble(case.make_inputs(choices=case.choices)) if case.compared_as else case.build()
