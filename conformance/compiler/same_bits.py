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
    RUN_MODES,
    SAME,
    UNDEFINED,
    BitVariant,
    batches,
    known_modes,
    other_gradients,
    row_sets,
    text_of,
    variants,
    without_gradients,
)
from conformance.compiler.compiler import GeneratingError
from conformance.errors import first_line
from conformance.facts import eager_rounding
from conformance.facts.model import listed
from conformance.facts.reduction_order import ReductionOrder, difference, ordered_kernels

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

    `evidence`: native or structure; "" if UNDEFINED. `bits`: of RUN, if native, a digest for another process.
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
    bits: str = ""

    @property
    def first_text(self) -> str:
        """The first line of the text: what compiled raises may have many."""
        return self.text.strip().partition("\n")[0]

    def __str__(self) -> str:
        parts = [each for each in (self.name, self.mode, self.first_text) if each]
        line = f"{self.kind:<14}{self.word}{f' ({self.evidence})' if self.evidence else ''}"
        line += f": {', '.join(parts)}" if parts else ""
        return line + (f"\n{'':14}{self.reason}" if self.reason else "")


@dataclass
class _Side:
    """One compile. `tensors`: outputs and gradients by name; None where the code does not run natively."""

    tensors: Mapping[str, torch.Tensor] | None
    order: ReductionOrder

    @classmethod
    def of(
        cls, result: CaptureResult, case: Case, target: Target, *, native: bool, rows: tuple[int, int] | None = None
    ) -> _Side:
        return cls(_called(result, case, target, rows) if native else None, _order(result.capture))


def verdicts(
    compiler: Compiler, case: Case, target: Target, *, deviceless: bool, kinds: Collection[str] = tuple(PROPERTIES)
) -> Iterator[Verdict]:
    """A verdict on each variant of each property of `kinds`. Natively, bits are always compared.

    Raises what compiling the case itself raises.
    """
    native = compiler.is_native(target, deviceless=deviceless, run=True)
    with compiler.generate(case, target, deviceless=deviceless, run=native) as result:
        comparison = _Comparison(compiler, target, native, deviceless=deviceless, thorough=True)
        yield from comparison.verdicts(case, result, kinds)


def verdicts_on(
    compiler: Compiler,
    case: Case,
    target: Target,
    result: CaptureResult,
    kinds: Collection[str],
    *,
    deviceless: bool,
    native: bool,
) -> Iterator[Verdict]:
    """The same for a capture that is there already, with as few compiles as a verdict needs.

    Variants whose structure is that of the capture are not run, and those that cannot have another are not compiled;
    other kernels are never built.
    The modes of torch that promise bits are not tried. `native`: whether the capture's bits are compared.
    """
    return _Comparison(compiler, target, native, deviceless=deviceless, thorough=False).verdicts(case, result, kinds)


def worst(found: Sequence[Verdict]) -> Verdict:
    """The verdict on a property with the case's own options: the first of the worst of its variants.

    If all are the same, it is native only if all are.
    """
    ranks = (DIFFER, MAY_DIFFER, SAME, UNDEFINED)
    own = sorted((each for each in found if not each.mode), key=lambda each: (ranks.index(each.word), each.evidence))
    if own[0].word == SAME:
        weakest = max((each for each in own if each.word == SAME), key=lambda each: each.evidence)
        return dataclasses.replace(weakest, name="")
    return own[0]


@dataclass(frozen=True)
class _Comparison:
    """Compiles variants for a target and compares them. `native`: whether bits are compared, and with `thorough` also
    where the structure is the same.
    """

    compiler: Compiler
    target: Target
    native: bool
    deviceless: bool
    thorough: bool

    def verdicts(self, case: Case, result: CaptureResult, kinds: Collection[str]) -> Iterator[Verdict]:
        from conformance.numerics.comparison import CandidateError

        try:
            own = _Side.of(result, case, self.target, native=self.native)
        except CandidateError as error:
            yield from (Verdict(kind, UNDEFINED, text=f"compiled raises {error}") for kind in kinds)
            return
        if RUN in kinds:
            yield _of_runs(own, _called(result, case, self.target) if self.native else None)
            yield from self.of_modes(case, own)
        if BATCH in kinds:
            yield from self.of_batches(case, own)
        for kind in (LAYOUT, CONFIGURATION):
            if kind in kinds:
                yield from self.of_kind(case, kind, own)
        if EAGER in kinds:
            yield from self.of_eager(case, own)

    def side(self, case: Case, rows: tuple[int, int] | None = None, *, native: bool) -> _Side | str:
        """The compiled case, or why there is none."""
        from conformance.numerics.comparison import CandidateError

        try:
            with self.compiler.generate(case, self.target, deviceless=self.deviceless, run=native) as result:
                return _Side.of(result, case, self.target, native=native, rows=rows)
        except GeneratingError as error:
            return f"it does not compile: {first_line(error)}"
        except CandidateError as error:
            return f"compiled raises {first_line(error)}"

    def verdict(self, variant: BitVariant, own: _Side) -> Verdict:
        from conformance.numerics.bits import bit_difference

        structural = Verdict(variant.kind, SAME, "structure", variant.name)
        if not self.thorough and _is_the_same(variant, own.order):
            return structural
        known = _known_reason(variant, own.order)
        if not (self.thorough or self.native) and known and (variant.kind != BATCH or own.order.library):
            return dataclasses.replace(structural, word=MAY_DIFFER, reason=known)
        is_run = self.native and (self.thorough or bool(known and variant.kind != CONFIGURATION))
        other = self.side(variant.case, variant.rows, native=is_run)
        if isinstance(other, str):
            return Verdict(variant.kind, UNDEFINED, name=variant.name, text=other)
        if variant.kind == CONFIGURATION and own.order.is_free and other.order.is_free:
            reason = self.regrouped(own, variant.case) or self.regrouped(other, variant.case)
            reason = reason if own.order.lines != other.order.lines else ""
        else:
            reason = difference(own.order.lines, other.order.lines) or known
        if reason and self.native and not is_run and variant.kind != CONFIGURATION:
            other = self.side(variant.case, variant.rows, native=True)
            if isinstance(other, str):
                return Verdict(variant.kind, UNDEFINED, name=variant.name, text=other)
        if own.tensors is None or other.tensors is None:
            return dataclasses.replace(structural, word=MAY_DIFFER, reason=reason) if reason else structural
        expected = own.tensors
        if variant.rows is not None:
            expected = {name: each[: variant.rows[0]] for name, each in expected.items()}
        if text := bit_difference(expected, other.tensors):
            reason = reason or own.order.library or UNEXPLAINED
            return Verdict(variant.kind, DIFFER, "native", variant.name, text, reason)
        return Verdict(variant.kind, SAME, "native", variant.name)

    def regrouped(self, side: _Side, case: Case) -> str:
        return eager_rounding.regrouped(side.order, self.target.device, case.config)

    def of_modes(self, case: Case, own: _Side) -> Iterator[Verdict]:
        """Where the bits may differ from run to run: in the mode that promises the same."""
        for mode in known_modes(RUN_MODES) if own.order.unstable and self.thorough else ():
            side = self.side(case.with_config(mode), native=False)
            found = Verdict(RUN, UNDEFINED, text=side) if isinstance(side, str) else _of_runs(side, None)
            yield dataclasses.replace(found, mode=text_of(mode))

    def of_kind(self, case: Case, kind: str, own: _Side) -> list[Verdict]:
        """Where not `thorough`, layouts are changed together, and the first that differs is the last."""
        found = self.until_one_differs(variants(case, kind, self.target.device, together=not self.thorough), own)
        return found or [Verdict(kind, UNDEFINED, text="no input is a tensor of floating numbers")]

    def until_one_differs(self, chosen: Iterator[BitVariant], own: _Side) -> list[Verdict]:
        """A verdict on each; where not `thorough`, the first that differs is the last."""
        found = list[Verdict]()
        for variant in chosen:
            found.append(self.verdict(variant, own))
            if not self.thorough and found[-1].word in (DIFFER, MAY_DIFFER):
                break
        return found

    def of_batches(self, case: Case, own: _Side) -> Iterator[Verdict]:
        """By default; where that is not the same, in the modes that promise it."""
        batch = _Batch.of(case)
        if isinstance(batch, str):
            yield Verdict(BATCH, UNDEFINED, text=batch)
            return
        case, names = batch.case, batch.names
        base = self.side(case, native=self.native) if batch.without else own
        if isinstance(base, str):
            yield Verdict(BATCH, UNDEFINED, text=base)
            return
        found = self.until_one_differs(batches(case, names), base)
        for each in found:
            yield dataclasses.replace(each, text="; ".join(filter(None, (each.text, batch.without))))
        if not self.thorough or all(each.word == SAME for each in found):
            return
        for mode in known_modes(BATCH_MODES):
            changed = case.with_config(mode)
            side = self.side(changed, native=self.native)
            for variant in batches(changed, names):
                if isinstance(side, str):
                    found_with = Verdict(BATCH, UNDEFINED, name=variant.name, text=side)
                else:
                    found_with = self.verdict(variant, side)
                yield dataclasses.replace(found_with, mode=text_of(mode))

    def of_eager(self, case: Case, own: _Side) -> Iterator[Verdict]:
        """By default; where that is not the same, in the modes that promise it."""
        import torch

        from conformance.numerics.bits import bit_difference

        reason = next(eager_rounding.reasons(own.order, self.target.device, case.config), "")
        if own.tensors is None:
            yield Verdict(EAGER, MAY_DIFFER if reason else SAME, "structure", reason=reason)
            return
        try:
            eager = _tensors(case.fn, case, self.target.device)
        except torch.AcceleratorError:
            raise  # as in _called
        except Exception as error:  # noqa: BLE001 - a case may expect it
            yield Verdict(EAGER, UNDEFINED, text=f"eager raises {type(error).__name__}: {first_line(error)}")
            return
        text = bit_difference(eager, own.tensors)
        reason = (reason or UNEXPLAINED) if text else ""
        yield Verdict(EAGER, DIFFER if text else SAME, "native", text=text, reason=reason)
        for mode in known_modes(EAGER_MODES) if text and self.thorough else ():
            side = self.side(case.with_config(mode), native=True)
            if isinstance(side, str) or side.tensors is None:
                yield Verdict(EAGER, UNDEFINED, text=str(side), mode=text_of(mode))
                continue
            differs = bit_difference(eager, side.tensors)
            yield Verdict(EAGER, DIFFER if differs else SAME, "native", text=differs, mode=text_of(mode))


def _is_the_same(variant: BitVariant, order: ReductionOrder) -> bool:
    """Whether the variant cannot have another structure."""
    if variant.kind == CONFIGURATION:
        return all(map(order.cannot_matter, variant.options))
    return order.is_free


def _known_reason(variant: BitVariant, order: ReductionOrder) -> str:
    """Why the bits may differ even if the structure is the same; "" if there is none."""
    library = "" if variant.kind == CONFIGURATION else order.library
    tail = order.scalar_tail if variant.kind == BATCH else ""
    return library or tail or (_FROM_RUN_TO_RUN if order.unstable else "")


def _of_runs(own: _Side, again: Mapping[str, torch.Tensor] | None) -> Verdict:
    from conformance.numerics.bits import bit_difference, digest

    unstable, library, bits = own.order.unstable, own.order.library, digest(own.tensors) if own.tensors else ""
    if again is not None and own.tensors is not None and (text := bit_difference(own.tensors, again)):
        return Verdict(RUN, DIFFER, "native", text=text, reason=unstable or library or UNEXPLAINED)
    if unstable:  # two calls of one process do not show it
        return Verdict(RUN, MAY_DIFFER, "structure", text="in another process", reason=unstable, bits=bits)
    return Verdict(RUN, SAME, "structure" if again is None else "native", bits=bits)


def _order(capture: Capture) -> ReductionOrder:
    """Without the launches of kernels that do not build here, and without texts that the wrapper does not have."""
    kernels = dict[str, offline.Kernel]()
    with contextlib.suppress(offline.KernelError):
        kernels = {kernel.name: kernel for kernel in offline.kernels(capture)}
    texts, launches = {name: kernel.text for name, kernel in kernels.items()}, {}
    for name in ordered_kernels(capture, texts) & kernels.keys():
        with contextlib.suppress(offline.KernelError):
            launches[name] = [_launch(launch) for launch in offline.launches(kernels[name])]
    return ReductionOrder(capture, texts, launches)


def _launch(launch: offline.Launch) -> str:
    return f"{launch.config} ({launch.combined})" if launch.combined else launch.config


def _called(
    result: CaptureResult, case: Case, target: Target, rows: tuple[int, int] | None = None
) -> dict[str, torch.Tensor]:
    """Raises CandidateError with what the compiled function raises, and torch.AcceleratorError as it is."""
    import torch

    from conformance.numerics.comparison import CandidateError

    try:
        result.build()
        return _tensors(result.compiled, case, target.device, rows)
    except torch.AcceleratorError:
        raise  # the device works no longer, so no other call says anything
    except Exception as error:
        raise CandidateError(f"{type(error).__name__}: {error}") from error


def _tensors(function: Any, case: Case, device: str, rows: tuple[int, int] | None = None) -> dict[str, torch.Tensor]:
    """Outputs, gradients and written inputs of one call, on the CPU.

    `rows`: how many of how many: a row of an output has the cotangent that it has among all.
    """
    import torch

    from conformance.capture import call_modes
    from conformance.numerics.bits import bit_difference
    from conformance.numerics.cotangents import random_cotangent
    from conformance.numerics.outcome import Arguments, call

    def cotangent(output: torch.Tensor) -> torch.Tensor:
        if rows is None:
            return random_cotangent(output.shape, output.dtype, 0)
        few, all_rows = rows
        return random_cotangent(torch.Size((all_rows, *output.shape[1:])), output.dtype, 0)[:few]

    arguments = Arguments(kwargs=case.build(0)).copy_to(device)
    before = {name: each.detach().cpu().clone() for name, each in arguments.tensors().items()}
    torch.manual_seed(0)
    with call_modes.enter_mode(case.mode, device):
        outcome = call(function, arguments)
        found = {name: each.detach().cpu().clone() for name, each in outcome.output_tensors().items()}
        for name, each in outcome.passed.items():
            after = each.detach().cpu().clone()
            if bit_difference({name: before[name]}, {name: after}):
                found[f"{name} after the call"] = after
        if case.grad or any(each.requires_grad for each in outcome.passed.values()):
            needed = {name: each for name, each in outcome.output_tensors().items() if each.requires_grad}
            outcome.backward({name: cotangent(each) for name, each in needed.items()})
    found |= {f"gradient of {name}": each.cpu() for name, each in outcome.gradients.items() if each is not None}
    return found


@dataclass(frozen=True)
class _Batch:
    """The tensors whose rows are a batch: each row of each output depends on the same row of them alone.

    `without`: what `case` leaves out of the case itself; "" for nothing.
    """

    case: Case
    names: tuple[str, ...]
    without: str = ""

    @classmethod
    def of(cls, case: Case) -> _Batch | str:
        """A batch of the case, or why it has none. Eager decides on the CPU."""
        whole, problems = None, []
        for names in row_sets(case):
            if not (chosen := list(batches(case, names))):
                problems.append("there is one row, or none")
                continue
            whole = whole or _cpu(case)
            problem = _dependence(whole, chosen)
            if not problem:
                return cls(case, names)
            problems.append(problem)
            if others := other_gradients(case, names):
                fewer = without_gradients(case, others)
                if not _dependence(_cpu(fewer), list(batches(fewer, names))):
                    return cls(fewer, names, f"without the gradients of {listed(others, 3)}")
        return problems[0] if problems else "no input has rows"


def _dependence(whole: Mapping[str, torch.Tensor] | None, chosen: Sequence[BitVariant]) -> str:
    import torch

    if whole is None:
        return "eager raises"
    for variant in chosen:
        count, rows = variant.rows or (0, 0)
        for name, each in whole.items():
            if not each.dim() or each.shape[0] != rows:
                return f"{name} has not the rows of the input"
        few = _cpu(variant.case, variant.rows)
        if few is None or few.keys() != whole.keys():
            return "eager refuses fewer rows"
        for name, each in few.items():
            expected = whole[name][:count]
            if each.shape != expected.shape or not torch.allclose(each, expected, rtol=1e-2, atol=1e-2, equal_nan=True):
                return f"a row of {name} depends on other rows"
    return ""


def _cpu(case: Case, rows: tuple[int, int] | None = None) -> dict[str, torch.Tensor] | None:
    try:
        return _tensors(case.fn, case, "cpu", rows)
    except Exception:  # noqa: BLE001 - what eager refuses is no variant
        return None
