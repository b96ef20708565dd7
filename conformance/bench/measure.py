"""One case measured: eager and compiled, timed in turns with the copy that is their limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.bench import explain
from conformance.bench.limits import Limits, copy_work, count_flops, minimum_bytes
from conformance.bench.report import Row
from conformance.bench.timing import Clock, CpuClock, GpuClock, Spread, Work, time_interleaved
from conformance.capture import call_modes
from conformance.cases.case import Case, case
from conformance.cases.inputs import tensor
from conformance.compiler.compiler import Compiler, GeneratingError
from conformance.containers import copy_to, leaves_of
from conformance.devices.targets import Target
from conformance.facts import extract
from conformance.facts.dynamo import nothing_compiled
from conformance.numerics.cotangents import random_cotangent

if TYPE_CHECKING:
    import torch

    from conformance.capture.model import Capture


def clock_for(target: Target) -> Clock:
    return CpuClock(target.threads) if target.device == "cpu" else GpuClock()


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Sets torch's threads in this process. A compiled function is compiled again when their number changes."""
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

    compiler: Compiler
    target: Target
    seconds: float
    clock: Clock
    _limits: Limits = field(init=False)
    _call_overheads: dict[bool, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._limits = Limits(self.clock, self.target.device, self.seconds)

    def measure(self, measured: Case) -> Row:
        """Raises GeneratingError for a case that cannot be compiled or called, or whose outputs differ from eager's in
        dtype or shape. Raises PreparationError if this machine cannot compile at all.
        """
        if raises := measured.numerics.get("raises"):
            raise GeneratingError(f"{measured.id}: the case is declared to raise {raises}, so nothing can be timed")
        with self._compiled(measured) as (capture, calls):
            copy = copy_work(calls.bytes, self.target.device)
            works = {"eager": calls.eager, "compiled": calls.compiled, "copy": copy}
            times = self._time(measured, capture, works)
            facts = extract(capture)
        row = Row(
            case=measured.id,
            function=f"{measured.operator}/{measured.name}",
            axes=dict(zip(measured.axes, measured.labels, strict=False)),
            gradients=bool(measured.grad),
            times=times,
            limit=self._limits.limit(times["copy"].median, calls.bytes, calls.flops, calls.dtype),
            facts=facts.lines(),
        )
        if row.is_slower:
            overhead = self._call_overhead(gradients=bool(measured.grad))
            parts = {f"bytes.{part}": facts.value(f"bytes.{part}") for part in ("read", "written")}
            row.why = explain.reasons(facts.to_json() | parts, row, overhead, self.target)
        return row

    @contextlib.contextmanager
    def _compiled(self, measured: Case) -> Iterator[tuple[Capture, _Calls]]:
        with self.compiler.generate(measured, self.target, run=True) as result:
            with _case_in_errors(measured, self.target):
                if result.compiled is None:
                    raise GeneratingError("the compiled code cannot run here")
                if text := nothing_compiled(result.capture):
                    raise GeneratingError(text)
                calls = _Calls.create(measured, result.compiled, self.target.device)
            yield result.capture, calls

    def _time(self, measured: Case, capture: Capture, works: Mapping[str, Work]) -> dict[str, Spread]:
        modules = len(capture.modules)
        with _case_in_errors(measured, self.target), call_modes.enter_mode(measured.mode, self.target.device):
            times = time_interleaved(works, self.clock, self.seconds)
        if len(capture.modules) != modules:
            raise GeneratingError(f"{measured.id} for {self.target.name}: it was compiled again while it was timed")
        return times

    def _call_overhead(self, *, gradients: bool) -> float:
        """Returns the microseconds by which a compiled call takes longer than eager's: `x + 1` with one element."""
        if gradients not in self._call_overheads:
            one = next(each for each in test_one.cases if bool(each.grad) == gradients)
            with self._compiled(one) as (capture, calls):
                times = self._time(one, capture, {"eager": calls.eager, "compiled": calls.compiled})
            self._call_overheads[gradients] = max(0.0, times["compiled"].median - times["eager"].median)
        return self._call_overheads[gradients]


@case(x=tensor(1), grad=[False, True])
def test_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@dataclass
class _Calls:
    """Both functions with the same tensors; the least bytes and the floating-point operations of a call."""

    eager: Work
    compiled: Work
    bytes: int
    flops: int
    dtype: torch.dtype | None

    @classmethod
    def create(cls, measured: Case, compiled: Callable[..., Any], device: str) -> _Calls:
        """Calls each function once. Raises what they raise, and GeneratingError if dtypes or shapes differ."""
        import torch

        arguments = copy_to(measured.build(), torch.device(device))
        with call_modes.enter_mode(measured.mode, device):
            return cls._create(measured, compiled, arguments)

    @classmethod
    def _create(cls, measured: Case, compiled: Callable[..., Any], arguments: dict[str, Any]) -> _Calls:
        value = measured.fn(**arguments)
        outputs, compiled_outputs = _tensors(value), _tensors(compiled(**arguments))
        if _dtypes_and_shapes(outputs) != _dtypes_and_shapes(compiled_outputs):
            raise GeneratingError(f"compiled returns {_describe(compiled_outputs)}, eager returns {_describe(outputs)}")
        inputs = [each for each in _tensors(arguments) if each.requires_grad]
        cotangents = [random_cotangent(each.shape, each.dtype, 0).to(each) for each in outputs if each.requires_grad]
        one = value is outputs[0] if outputs else False
        eager_work, compiled_work = (
            _work(fn, arguments, inputs, cotangents, one=one) for fn in (measured.fn, compiled)
        )
        gradients = _gradients(eager_work) if inputs else []
        compiled_gradients = _gradients(compiled_work) if inputs else []
        if _dtypes_and_shapes(gradients) != _dtypes_and_shapes(compiled_gradients):
            raise GeneratingError(
                f"compiled's gradients are {_describe(compiled_gradients)}, eager's are {_describe(gradients)}"
            )
        read = _tensors(arguments)
        return cls(
            eager=eager_work,
            compiled=compiled_work,
            bytes=minimum_bytes([*read, *cotangents], [*outputs, *gradients]),
            flops=count_flops(eager_work.function()),
            dtype=next((each.dtype for each in read if each.is_floating_point()), None),
        )


def _work(
    fn: Callable[..., Any],
    arguments: dict[str, Any],
    inputs: list[torch.Tensor],
    cotangents: list[torch.Tensor],
    *,
    one: bool,
) -> Work:
    """Returns the call, with its backward if there are `inputs`. `one`: the function returns one tensor; otherwise the
    outputs that have a gradient are selected, in eager and in compiled alike.
    """
    import torch

    if not inputs:
        return Work("fn(**arguments)", {"fn": fn, "arguments": arguments})
    names = {"fn": fn, "arguments": arguments, "inputs": inputs, "cotangents": cotangents, "grad": torch.autograd.grad}
    outputs = "fn(**arguments)" if one else "with_gradient(fn(**arguments))"
    names |= {} if one else {"with_gradient": lambda value: [each for each in _tensors(value) if each.requires_grad]}
    return Work(f"grad({outputs}, inputs, cotangents, allow_unused=True)", names)


def _gradients(work: Work) -> list[torch.Tensor]:
    return [each for each in work.function()() if each is not None]


def _tensors(value: Any) -> list[torch.Tensor]:
    import torch

    return [leaf for _, leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]


def _dtypes_and_shapes(tensors: list[torch.Tensor]) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    return [(each.dtype, tuple(each.shape)) for each in tensors]


def _describe(tensors: list[torch.Tensor]) -> str:
    """`float32[20, 30], int64[5]`."""
    words = [f"{str(dtype).removeprefix('torch.')}{list(shape)}" for dtype, shape in _dtypes_and_shapes(tensors)]
    return ", ".join(words) or "no tensor"


@contextlib.contextmanager
def _case_in_errors(measured: Case, target: Target) -> Iterator[None]:
    """Puts the case and the target in front of an error's message."""
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, GeneratingError) else f"{type(error).__name__}: "
        raise GeneratingError(f"{measured.id} for {target.name}: {kind}{error}") from error
