"""Random functions: their values depend on the numbers that torch draws.

By default, compiled code draws other numbers than eager, so a comparison of values would decide nothing. With
Inductor's option fallback_random it draws what eager draws: `seeded` makes that case, whose values are compared. What
is drawn by default is compared by what random numbers promise (`problems`): other numbers in each call, the
distribution of eager's, and in the backward the numbers of the forward.

Private parts of torch: TorchDispatchMode (torch.utils._python_dispatch), the only hook that sees what draws numbers.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.capture import call_modes
from conformance.capture.compiler_options import FALLBACK
from conformance.cases import special_values
from conformance.cases.case import Case
from conformance.containers import leaves_of
from conformance.numerics.cotangents import random_cotangent
from conformance.numerics.outcome import Arguments, call

#: Calls of each side, and how many standard errors their means may differ: with 30 degrees of freedom, Student's t
#: exceeds that once in 3 million comparisons.
DRAWS, LIMIT = 16, 6.5
#: Values that differ by so many roundings of their dtype are the same.
ROUNDINGS = 16
#: With fewer elements that go up and down in different ways, luck may explain that compiled's are half as many.
_MANY = 24
_WIDE = (torch.float64, torch.complex128)
#: Of the largest value: eager's own error is smaller.
_OTHER_DRAWS = 2.0**-4


def seeded(case: Case) -> Case:
    """The case with which compiled code draws the numbers that eager draws."""
    return case.with_config({FALLBACK: True})


def is_seeded(case: Case) -> bool:
    return bool(case.config.get(FALLBACK))


def is_random(case: Case) -> bool:
    """Whether eager on the CPU gives other values after another torch.manual_seed. The targets of a case share it."""
    key = (str(case.file), case.id)
    if key not in _answers:
        _answers[key] = _is_random(case)
    return _answers[key]


_answers: dict[tuple[str, str], bool] = {}


def _is_random(case: Case) -> bool:
    arguments = Arguments(kwargs=case.build(0))
    try:
        first, drew = _drawn(case.fn, arguments, case.mode, "cpu", 0)
        others = (_drawn(case.fn, arguments, case.mode, "cpu", seed)[0] for seed in range(1, DRAWS))
        return drew and not all(_are_equal(first, other) for other in others)  # few booleans may be equal by luck
    except Exception:  # noqa: BLE001 - what eager raises is no random value, and the check itself meets it
        return False


def problems(case: Case, compiled: Callable[..., Any], device: torch.device | str) -> list[str]:
    """What compiled code's own draws break: numbers that repeat from call to call, among elements or between outputs,
    another distribution than eager's, other numbers in the backward. Calls both sides DRAWS times with the arguments of
    the first call.
    """
    arguments = Arguments(kwargs=case.build(0))
    sides = [[_drawn(fn, arguments, case.mode, device, seed)[0] for seed in range(DRAWS)] for fn in (case.fn, compiled)]
    found = []
    for index in range(min(len(sides[0][0]), len(sides[1][0]))):
        eager, got = ([draw[index] for draw in side] for side in sides)
        name = "output" if len(sides[0][0]) == 1 else f"output {index}"
        if not _are_equal(eager[:1], eager[1:2]) and all(_are_equal(got[:1], [other]) for other in got[1:]):
            found.append(f"{name}: compiled draws the same numbers in each of {DRAWS} calls")
            continue
        courses = [_courses(draws) for draws in (eager, got)]
        if courses[0] >= _MANY and courses[1] < courses[0] / 2:
            found.append(
                f"{name}: elements share what compiled draws: {courses[1]} differ, and {courses[0]} of eager's"
            )
        for what, one, other in _statistics(_MEASURES, eager, got):
            if _means_differ(one, other, _epsilon(eager[0])):
                means = f"{statistics.fmean(other):.4g}, and eager's {statistics.fmean(one):.4g}"
                found.append(f"{name}: the {what} of what compiled draws by default is {means}, in {DRAWS} calls each")
    found += _related_outputs(*sides)
    found += _missing_refusals(case, compiled, device)
    return found + list(_other_numbers_in_the_backward(case, compiled, device, arguments))


def _missing_refusals(case: Case, compiled: Callable[..., Any], device: torch.device | str) -> Iterator[str]:
    """Inputs outside of their bounds that eager refuses and compiled takes. With eager's numbers, both run eager's."""
    if torch.device(device).type != "cpu":
        return
    for each in special_values.calls(case, {}, ()):
        if each.group == special_values.OUTSIDE:
            eager, got = (_refusal(fn, Arguments(kwargs=each.arguments), case.mode) for fn in (case.fn, compiled))
            if eager and not got:
                yield f"{each.title}: eager raises {eager}, and compiled raises nothing"


def _refusal(fn: Callable[..., Any], arguments: Arguments, mode: str) -> str:
    """The type and message of what a call on the CPU raises, or ""."""
    try:
        _drawn(fn, arguments, mode, "cpu", 0)
    except Exception as error:  # noqa: BLE001 - whether both raise is the question
        return f"{type(error).__name__}: {error}"
    return ""


def _related_outputs(eager: Sequence[Sequence[torch.Tensor]], got: Sequence[Sequence[torch.Tensor]]) -> Iterator[str]:
    """Pairs of outputs that depend on each other in another way than eager's. Both: the outputs of each call."""
    for first, second in itertools.combinations(range(min(len(eager[0]), len(got[0]))), 2):
        if eager[0][first].shape != eager[0][second].shape:
            continue
        products = [[each[first].double() * each[second].double() for each in side] for side in (eager, got)]
        for _, one, other in _statistics({"mean": _MEASURES["mean"]}, *products):
            if _means_differ(one, other, _epsilon(eager[0][first])):
                means = f"{statistics.fmean(other):.4g}, and eager's {statistics.fmean(one):.4g}"
                yield f"outputs {first} and {second}: compiled draws them together: their mean product is {means}"


def _means_differ(one: Sequence[float], other: Sequence[float], epsilon: float) -> bool:
    """Whether two samples of DRAWS values have other means. `epsilon`: of the dtype that the values are made of."""
    rounding = ROUNDINGS * epsilon * max(map(abs, (*one, *other)))
    distance = abs(statistics.fmean(one) - statistics.fmean(other)) - rounding
    return distance > LIMIT * ((statistics.variance(one) + statistics.variance(other)) / DRAWS) ** 0.5


def _courses(draws: Sequence[torch.Tensor]) -> int:
    """How many elements differ in how they go up and down from call to call.

    Elements that share a random number go up and down together, or opposite to each other.
    """
    values = torch.stack([draw.double().flatten() for draw in draws])
    signs = (values[1:] - values[:-1]).sign()
    signs *= torch.where(signs[0] < 0, -1.0, 1.0)
    return signs.unique(dim=1).shape[1] if values.shape[1] else 0


def _other_numbers_in_the_backward(
    case: Case, compiled: Callable[..., Any], device: torch.device | str, arguments: Arguments
) -> Iterator[str]:
    """Inputs whose gradient uses other numbers than the forward, such as another mask of dropout.

    Where the outputs y are linear in an input x, <y, cotangent> is <x, gradient>. Eager shows whether they are.
    """
    gaps = [[_gaps(fn, arguments, case.mode, device, seed) for seed in range(4)] for fn in (case.fn, compiled)]
    for name in gaps[0][0]:
        eager, got = (max(each.get(name, 0.0) for each in side) for side in gaps)
        eps = _epsilon(arguments.tensors()[name])
        if eager <= eps and got > ROUNDINGS * eps:
            yield f"gradient of {name}: the backward uses other numbers than the forward"


def _gaps(
    fn: Callable[..., Any], arguments: Arguments, mode: str, device: torch.device | str, seed: int
) -> dict[str, float]:
    """Input → |<y, cotangent> - <x, gradient>|, as a share of the sum of the products' sizes."""
    torch.manual_seed(seed)
    with call_modes.enter_mode(mode, device):
        outcome = call(fn, arguments.copy_to(device))
    outputs = {name: t for name, t in outcome.output_tensors().items() if t.requires_grad and not t.is_complex()}
    cotangents = {name: random_cotangent(t.shape, t.dtype, seed) for name, t in outputs.items()}
    outcome.backward(cotangents)

    def products(pairs: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        return torch.cat([(a.detach().cpu().double() * b.detach().cpu().double()).flatten() for a, b in pairs])

    if not outputs:
        return {}
    whole = products((outputs[name], cotangents[name]) for name in outputs)
    found = {}
    for name, gradient in outcome.gradients.items():
        if gradient is not None:
            parts = products(iter([(outcome.passed[name], gradient)]))
            size = float(whole.abs().sum() + parts.abs().sum()) or 1.0
            found[name] = abs(float(whole.sum() - parts.sum())) / size
    return found


def _weighted(value: torch.Tensor) -> torch.Tensor:
    """The mean with random weights, the same in each call: it depends on which element has which distribution."""
    weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (value.double() * weights).mean()


_MEASURES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": lambda value: value.double().mean(),
    "mean square": lambda value: value.double().square().mean(),
    "mean fourth power": lambda value: value.double().pow(4).mean(),
    "share of zeros": lambda value: (value == 0).double().mean(),
    "mean with random weights": _weighted,
}


def _statistics(
    measures: Mapping[str, Callable[[torch.Tensor], torch.Tensor]],
    eager: Sequence[torch.Tensor],
    got: Sequence[torch.Tensor],
) -> Iterator[tuple[str, list[float], list[float]]]:
    """(name, eager's values, compiled's values) of each statistic that is finite on both sides."""
    for name, measure in measures.items():
        one, other = ([float(measure(draw)) for draw in side] for side in (eager, got))
        if all(map(math.isfinite, (*one, *other))):
            yield name, one, other


def _drawn(
    fn: Callable[..., Any], arguments: Arguments, mode: str, device: torch.device | str, seed: int
) -> tuple[list[torch.Tensor], bool]:
    """The tensors that a call returns, on the CPU, and whether the CPU's generator drew numbers."""
    copies = arguments.copy_to(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        with call_modes.enter_mode(mode, device):  # with gradients, as compiled was called before
            value = fn(*copies.args, **copies.kwargs)
        drew = not torch.equal(before, torch.get_rng_state())
    leaves = [leaf for _, leaf in leaves_of(value) if isinstance(leaf, torch.Tensor) and not leaf.is_complex()]
    return [leaf.detach().cpu() for leaf in leaves], drew


def _are_equal(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    """Whether values differ by no more than a few roundings: x * 2 / 2 with a random 2 is not random."""
    if [tensor.shape for tensor in one] != [tensor.shape for tensor in other]:
        return False
    pairs = ((a.double().nan_to_num(), b.double().nan_to_num(), _epsilon(a)) for a, b in zip(one, other, strict=True))
    return all(bool(((a - b).abs() <= ROUNDINGS * eps * a.abs().maximum(b.abs())).all()) for a, b, eps in pairs)


def _epsilon(tensor: torch.Tensor) -> float:
    return torch.finfo(tensor.dtype).eps if tensor.dtype.is_floating_point else 0.0


class NarrowDraws(TorchDispatchMode):
    """Inside, operators draw in `dtype` and return float64: a float64 run then has the numbers of a run in `dtype`."""

    supports_higher_order_operators = True

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
            return func(*args, **kwargs)
        narrow = [self._narrow(value) for value in args]
        result = func(*narrow, **{key: self._narrow(value) for key, value in kwargs.items()})
        if args and result is narrow[0] and result is not args[0]:  # in place
            return args[0].copy_(result)
        if isinstance(result, tuple):
            return tuple(self._widened(value) for value in result)
        return self._widened(result)

    def _narrow(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(self._dtype) if value.dtype in _WIDE else value
        return self._dtype if value in _WIDE and isinstance(value, torch.dtype) else value

    def _widened(self, value: Any) -> Any:
        is_narrow = isinstance(value, torch.Tensor) and value.dtype == self._dtype
        return value.double() if is_narrow else value


def draws_differ(eager: torch.Tensor, wide: torch.Tensor) -> bool:
    """Whether float64 drew other numbers than eager, as where it takes another implementation of attention."""
    distance = (eager.to(wide.dtype) - wide).abs().nan_to_num(0, 0, 0)
    return bool(wide.numel()) and bool(distance.amax() > _OTHER_DRAWS * wide.abs().nan_to_num(0, 0, 0).amax())
