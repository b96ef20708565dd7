"""Whether a case's code gives the same bits: run to run, for fewer rows, elsewhere in memory, by other kernels, and as
eager.

Where the code runs on its own device, its bits are compared: native. Elsewhere its structure is: two captures whose
kernels add up in the same order have the same bits, and where the order is another one, the bits may be others. The
emulation of a GPU adds up in another order than the GPU, so it says nothing about bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.capture.offline import compiler as offline
from conformance.cases.bit_variants import (
    BATCH,
    BATCH_MODES,
    CONFIGURATION,
    DIFFER,
    EAGER,
    EAGER_MODES,
    LAYOUT,
    MAY_DIFFER,
    PROPERTIES,
    RUN,
    SAME,
    UNDEFINED,
    BitVariant,
    known_modes,
    rows_of,
    text_of,
    variants,
)
from conformance.compiler.compiler import GeneratingError
from conformance.errors import first_line
from conformance.facts import reduction_order as order

if TYPE_CHECKING:
    import torch

    from conformance.capture.model import Capture
    from conformance.capture.result import CaptureResult
    from conformance.cases.case import Case
    from conformance.compiler.compiler import Compiler
    from conformance.devices.targets import Target

#: The reason where bits differ and nothing in the code says why.
UNEXPLAINED = "the kernels are the same by structure"
_FROM_RUN_TO_RUN = "the bits may differ from run to run already"


@dataclass(frozen=True)
class Verdict:
    """`kind`: one of PROPERTIES. `word`: SAME, DIFFER (native), MAY_DIFFER (by structure) or UNDEFINED.

    `evidence`: native or structure; "" if UNDEFINED.
    `name`: of the variant, "" without one. `mode`: the options of Inductor with which it holds, "" for the case's own.
    `text`: how many elements differ. `reason`: what the kernels do differently.
    """

    kind: str
    word: str
    evidence: str = ""
    name: str = ""
    text: str = ""
    reason: str = ""
    mode: str = ""

    def __str__(self) -> str:
        parts = [each for each in (self.name, self.mode, self.text) if each]
        line = f"{self.kind:<14}{self.word}{f' ({self.evidence})' if self.evidence else ''}"
        line += f": {', '.join(parts)}" if parts else ""
        return line + (f"\n{'':14}{self.reason}" if self.reason else "")


@dataclass
class _Side:
    """One compile. `tensors`: outputs and gradients by name; None where the code does not run natively. `library`: what
    the code calls beside its kernels, as a reason. `unstable`: why another process may have other bits. "" for none.
    """

    tensors: Mapping[str, torch.Tensor] | None
    order: list[str]
    library: str
    unstable: str

    @classmethod
    def of(cls, result: CaptureResult, case: Case, target: Target, *, native: bool) -> _Side:
        capture, launches = result.capture, _launches(result.capture)
        return cls(
            _called(result, case, target) if native else None,
            order.reduction_order(capture, launches),
            _of_libraries(order.library_calls(capture)),
            order.unstable(capture, launches),
        )


def verdicts(
    compiler: Compiler, case: Case, target: Target, *, deviceless: bool, kinds: Collection[str] = tuple(PROPERTIES)
) -> Iterator[Verdict]:
    """A verdict on each variant of each property of `kinds`. Raises what compiling the case itself raises."""
    native = compiler.is_native(target, deviceless=deviceless, run=True)
    compare = _Comparison(compiler, target, {"deviceless": deviceless, "run": native})
    with compiler.generate(case, target, **compare.how) as result:
        own = _Side.of(result, case, target, native=native)
        if RUN in kinds:
            yield _of_runs(own, _called(result, case, target) if native else None)
    if BATCH in kinds:
        yield from _of_batches(compare, case, own)
    for kind in (LAYOUT, CONFIGURATION):
        if kind in kinds:
            yield from (compare.verdict(variant, own) for variant in variants(case, kind, target.device))
    if EAGER in kinds:
        yield from _of_eager(compare, case, own)


@dataclass(frozen=True)
class _Comparison:
    """Compiles variants for a target and compares them. `how`: see Compiler.generate."""

    compiler: Compiler
    target: Target
    how: Mapping[str, Any]

    def side(self, case: Case) -> _Side | str:
        """The compiled case, or why there is none."""
        from conformance.numerics.comparison import CandidateError

        try:
            with self.compiler.generate(case, self.target, **self.how) as result:
                return _Side.of(result, case, self.target, native=self.how["run"])
        except GeneratingError as error:
            return f"it does not compile: {first_line(error)}"
        except CandidateError as error:
            return f"compiled raises {first_line(error)}"

    def verdict(self, variant: BitVariant, own: _Side) -> Verdict:
        from conformance.numerics.bits import bit_difference

        other = self.side(variant.case)
        if isinstance(other, str):
            return Verdict(variant.kind, UNDEFINED, name=variant.name, text=other)
        reason = order.difference(own.order, other.order) or (_FROM_RUN_TO_RUN if own.unstable else "")
        if own.tensors is None or other.tensors is None:
            reason = reason or ("" if variant.kind == CONFIGURATION else own.library)
            return Verdict(variant.kind, MAY_DIFFER if reason else SAME, "structure", variant.name, reason=reason)
        expected = own.tensors
        if variant.rows is not None:
            expected = {name: each[: variant.rows] for name, each in expected.items()}
        if text := bit_difference(expected, other.tensors):
            return Verdict(variant.kind, DIFFER, "native", variant.name, text, reason or own.library or UNEXPLAINED)
        return Verdict(variant.kind, SAME, "native", variant.name)


def _of_runs(own: _Side, again: Mapping[str, torch.Tensor] | None) -> Verdict:
    from conformance.numerics.bits import bit_difference

    if again is not None and own.tensors is not None and (text := bit_difference(own.tensors, again)):
        return Verdict(RUN, DIFFER, "native", text=text, reason=own.unstable or own.library or UNEXPLAINED)
    if own.unstable:  # two calls of one process do not show it
        return Verdict(RUN, MAY_DIFFER, "structure", text="in another process", reason=own.unstable)
    return Verdict(RUN, SAME, "structure" if again is None else "native")


def _of_batches(compare: _Comparison, case: Case, own: _Side) -> Iterator[Verdict]:
    """By default; where that is not the same, in the modes that promise it."""
    if whole := _independent_rows(case):
        yield Verdict(BATCH, UNDEFINED, text=whole)
        return
    found = [compare.verdict(variant, own) for variant in variants(case, BATCH, compare.target.device)]
    yield from found
    if all(each.word == SAME for each in found):
        return
    for mode in known_modes(BATCH_MODES):
        changed = case.with_config(mode)
        side = compare.side(changed)
        for variant in variants(changed, BATCH, compare.target.device):
            if isinstance(side, str):
                found_with = Verdict(BATCH, UNDEFINED, name=variant.name, text=side)
            else:
                found_with = compare.verdict(variant, side)
            yield dataclasses.replace(found_with, mode=text_of(mode))


def _of_eager(compare: _Comparison, case: Case, own: _Side) -> Iterator[Verdict]:
    """By default; where that is not the same, in the modes that promise it."""
    from conformance.numerics.bits import bit_difference

    if own.tensors is None:
        yield Verdict(EAGER, UNDEFINED, text="eager needs the device")
        return
    eager = _tensors(case.fn, case, compare.target)
    text = bit_difference(eager, own.tensors)
    yield Verdict(EAGER, DIFFER if text else SAME, "native", text=text)
    for mode in known_modes(EAGER_MODES) if text else ():
        side = compare.side(case.with_config(mode))
        if isinstance(side, str) or side.tensors is None:
            yield Verdict(EAGER, UNDEFINED, text=str(side), mode=text_of(mode))
            continue
        differs = bit_difference(eager, side.tensors)
        yield Verdict(EAGER, DIFFER if differs else SAME, "native", text=differs, mode=text_of(mode))


def _of_libraries(calls: Sequence[str]) -> str:
    return f"a library chooses its own kernel: {', '.join(calls)}" if calls else ""


def _launches(capture: Capture) -> dict[str, list[str]]:
    """Name of each Triton kernel → how Inductor may launch it, without those that do not build here."""
    found = {}
    for kernel in offline.kernels(capture):
        with contextlib.suppress(offline.KernelError):
            found[kernel.name] = [_launch(launch) for launch in offline.launches(kernel)]
    return found


def _launch(launch: offline.Launch) -> str:
    """The width of an access decides which elements a thread adds up."""
    width = f" {launch.widest_access} bits at once" if launch.widest_access else ""
    return f"{launch.config}{width}"


def _called(result: CaptureResult, case: Case, target: Target) -> dict[str, torch.Tensor]:
    """Raises CandidateError with what the compiled function raises."""
    from conformance.numerics.comparison import CandidateError

    result.build()
    try:
        return _tensors(result.compiled, case, target)
    except Exception as error:
        raise CandidateError(f"{type(error).__name__}: {first_line(error)}") from error


def _tensors(function: Any, case: Case, target: Target) -> dict[str, torch.Tensor]:
    """Outputs and gradients of one call, on the CPU."""
    import torch

    from conformance.cases import call_modes
    from conformance.numerics.cotangents import random_cotangent
    from conformance.numerics.outcome import Arguments, call

    arguments = Arguments(kwargs=case.build(0)).copy_to(target.device)
    torch.manual_seed(0)
    with call_modes.enter_mode(case.mode, target.device):
        outcome = call(function, arguments)
        found = {name: each.detach().cpu().clone() for name, each in outcome.output_tensors().items()}
        if case.grad:
            needed = {name: each for name, each in outcome.output_tensors().items() if each.requires_grad}
            outcome.backward({name: random_cotangent(each.shape, each.dtype, 0) for name, each in needed.items()})
    found |= {f"gradient of {name}": each.cpu() for name, each in outcome.gradients.items() if each is not None}
    return found


def _independent_rows(case: Case) -> str:
    """Why fewer rows are not defined; "" if each row of each output depends on the same row of the inputs alone."""
    import torch

    rows = rows_of(case)
    chosen = list(variants(case, BATCH, "cpu"))
    if not chosen:
        return "there is one row, or none"
    if case.grad:
        return "a gradient may be the sum over all rows"
    whole = _cpu(case)
    if whole is None or any(not each.dim() or each.shape[0] != rows for each in whole.values()):
        return "an output has not the rows of the input"
    for variant in chosen:
        few = _cpu(variant.case)
        if few is None or few.keys() != whole.keys():
            return "eager refuses fewer rows"
        for name, each in few.items():
            expected = whole[name][: variant.rows]
            if each.shape != expected.shape or not torch.allclose(each, expected, rtol=1e-2, atol=1e-2, equal_nan=True):
                return "a row depends on other rows"
    return ""


def _cpu(case: Case) -> dict[str, torch.Tensor] | None:
    from conformance.numerics.outcome import Arguments, call

    try:
        return call(case.fn, Arguments(kwargs=case.build(0))).output_tensors()
    except Exception:  # noqa: BLE001 - what eager refuses is no variant
        return None
