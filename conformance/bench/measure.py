"""One case, eager and compiled in turns with the copy that limits it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.bench import explain
from conformance.bench.limits import Limits, copy_of, flops_of, least_bytes
from conformance.bench.report import Row
from conformance.bench.timing import Clock, CpuClock, GpuClock, Spread, Work, in_turns
from conformance.cases import call_modes
from conformance.cases.case import Case, case
from conformance.cases.inputs import copy_to, tensor
from conformance.devices.targets import Target
from conformance.facts import extract
from conformance.harness.generator import GeneratingError, Generator
from conformance.numerics.outcome import leaves_of, random_cotangent

if TYPE_CHECKING:
    import torch


def clock_of(target: Target) -> Clock:
    return CpuClock(target.threads) if target.device == "cpu" else GpuClock()


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Of torch, in this process: a compiled function is compiled again where their number has changed."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class Bench:
    """Measures cases on one native target. `seconds`: for each function of each case."""

    generator: Generator
    target: Target
    seconds: float
    clock: Clock
    _limits: Limits = field(init=False)
    _calls: dict[bool, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._limits = Limits(self.clock, self.target.device, self.seconds)

    def row(self, wanted: Case) -> Row:
        """Raises GeneratingError for a case that cannot be compiled or called, or whose outputs have not eager's dtype
        and shape; PreparationError where this machine cannot compile at all.
        """
        if raises := wanted.numerics.get("raises"):
            raise GeneratingError(f"{wanted.id}: it is declared to raise {raises}")
        with self._compiled(wanted) as (captured, calls):
            copy = copy_of(calls.bytes, self.target.device)
            times = self._timed(wanted, captured, {"eager": calls.eager, "compiled": calls.compiled, "copy": copy})
            found = extract(captured.capture)
        limit = self._limits.of(times["copy"].median, calls.bytes, calls.flops, calls.dtype)
        row = Row(
            case=wanted.id,
            function=f"{wanted.operator}/{wanted.name}",
            axes=dict(zip(wanted.axes, wanted.labels, strict=False)),
            gradients=bool(wanted.grad),
            times=times,
            limit=limit,
            facts=found.lines(),
        )
        if row.loses:
            call = self._calling(gradients=bool(wanted.grad))
            parts = {f"bytes.{part}": found.value(f"bytes.{part}") for part in ("read", "written")}
            row.why = explain.reasons(found.to_json() | parts, row, call, self.target)
        return row

    @contextlib.contextmanager
    def _compiled(self, wanted: Case) -> Iterator[tuple[Any, _Calls]]:
        with self.generator.capture(wanted, self.target, run=True) as captured:
            with _named(wanted, self.target):
                calls = _Calls.of(wanted, captured.compiled, self.target.device)
            yield captured, calls

    def _timed(self, wanted: Case, captured: Any, works: Mapping[str, Work]) -> dict[str, Spread]:
        modules = len(captured.capture.modules)
        with _named(wanted, self.target), call_modes.enter_mode(wanted.mode, self.target.device):
            times = in_turns(works, self.clock, self.seconds)
        if len(captured.capture.modules) != modules:
            raise GeneratingError(f"{wanted.id} for {self.target.name}: compiled again while it was timed")
        return times

    def _calling(self, *, gradients: bool) -> float:
        """Microseconds by which calling a compiled function costs more than eager's: `x + 1` of a single element."""
        if gradients not in self._calls:
            one = next(each for each in _ONE if bool(each.grad) == gradients)
            with self._compiled(one) as (captured, calls):
                times = self._timed(one, captured, {"eager": calls.eager, "compiled": calls.compiled})
            self._calls[gradients] = max(0.0, times["compiled"].median - times["eager"].median)
        return self._calls[gradients]


def test_one(x):
    return x + 1


_ONE: list[Case] = case(x=tensor(1), grad=[False, True])(test_one).cases


@dataclass
class _Calls:
    """Both functions with the same tensors, and what they cost at least."""

    eager: Work
    compiled: Work
    bytes: int
    flops: int
    dtype: torch.dtype | None

    @classmethod
    def of(cls, wanted: Case, compiled: Callable[..., Any], device: str) -> _Calls:
        """Calls each function once. Raises what they raise, and GeneratingError where the outputs differ in kind."""
        import torch

        arguments = copy_to(wanted.build(), torch.device(device))
        with call_modes.enter_mode(wanted.mode, device):
            return cls._called(wanted, compiled, arguments)

    @classmethod
    def _called(cls, wanted: Case, compiled: Callable[..., Any], arguments: dict[str, Any]) -> _Calls:
        value = wanted.fn(**arguments)
        outputs = _tensors(value)
        got = _tensors(compiled(**arguments))
        if _kinds(outputs) != _kinds(got):
            raise GeneratingError(f"compiled gives {_said(got)} where eager gives {_said(outputs)}")
        inputs = [arguments[name] for name in wanted.grad]
        cotangents = [random_cotangent(each.shape, each.dtype, 0).to(each) for each in outputs if each.requires_grad]
        works = [_work(fn, arguments, inputs, cotangents, one=value is outputs[0]) for fn in (wanted.fn, compiled)]
        gradients = [[each for each in work.function()() if each is not None] for work in works] if inputs else [[], []]
        if _kinds(gradients[0]) != _kinds(gradients[1]):
            raise GeneratingError(f"compiled's gradients are {_said(gradients[1])}, eager's {_said(gradients[0])}")
        read = _tensors(arguments)
        return cls(
            *works,
            bytes=least_bytes([*read, *cotangents], [*outputs, *gradients[0]]),
            flops=flops_of(works[0].function()),
            dtype=next((each.dtype for each in read if each.is_floating_point()), None),
        )


def _work(fn: Callable[..., Any], arguments: dict[str, Any], inputs: Any, cotangents: Any, *, one: bool) -> Work:
    """The call, and with gradients its backward; of several outputs those that have one are picked out for both."""
    import torch

    if not inputs:
        return Work("fn(**arguments)", {"fn": fn, "arguments": arguments})
    names = {"fn": fn, "arguments": arguments, "inputs": inputs, "cotangents": cotangents, "grad": torch.autograd.grad}
    outputs = "fn(**arguments)" if one else "with_gradient(fn(**arguments))"
    names |= {} if one else {"with_gradient": lambda value: [each for each in _tensors(value) if each.requires_grad]}
    return Work(f"grad({outputs}, inputs, cotangents, allow_unused=True)", names)


def _tensors(value: Any) -> list[torch.Tensor]:
    import torch

    return [leaf for _, leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]


def _kinds(tensors: list[torch.Tensor]) -> list[tuple[Any, ...]]:
    return [(each.dtype, tuple(each.shape)) for each in tensors]


def _said(tensors: list[torch.Tensor]) -> str:
    return ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for dtype, shape in _kinds(tensors)) or "none"


@contextlib.contextmanager
def _named(wanted: Case, target: Target) -> Iterator[None]:
    """What goes wrong, with the case's name before it."""
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, GeneratingError) else f"{type(error).__name__}: "
        raise GeneratingError(f"{wanted.id} for {target.name}: {kind}{error}") from error
