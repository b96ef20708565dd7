"""Generates programs: functions of cases and idioms, joined where types and shapes allow, as one graph of Dynamo.

A program depends on the seed, its number, the cases and torch, and on nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.dynamo_graphs import NotWritableError, recorded_compiles, written
from conformance.cases.case import Case
from conformance.fuzzer.fitting import Fit, fit_for
from conformance.fuzzer.idioms import IDIOMS
from conformance.fuzzer.parts import LARGEST, Parts, is_place
from conformance.minimisation.program import Program, Step

#: How often an argument of a case takes a value that was computed before.
_JOINED = 0.65
#: Larger numbers lose all digits in the next step: what is wrong then cannot be told from what is rounded.
_LARGEST_NUMBER = 1e6
_FLOATING = ("f64", "f32", "f16", "bf16")


@dataclass(frozen=True)
class Generated:
    """`program`: with inputs x0, x1, …, and steps v0, v1, …  `dynamic`: whether to compile for any size.
    `parts`: ids of cases and names of idioms, in the order of the program.
    """

    number: int
    program: Program
    dynamic: bool
    parts: tuple[str, ...]


@dataclass(frozen=True)
class _Link:
    """The value `number` of those that were computed before, as an argument. `fit`: None takes it as it is."""

    number: int
    fit: Fit | None = None


@dataclass(frozen=True)
class _Call:
    """`function` is called with `links` by name, and with `constants`, or with the arguments of `case`."""

    name: str
    function: Callable[..., Any]
    links: Mapping[str, _Link]
    constants: Mapping[str, Any] = field(default_factory=dict)
    case: Case | None = None


@dataclass(frozen=True)
class _Style:
    """How the tensors of a program are made that cases declare as floating: whether they require a gradient, and
    their `dtype` and `layout`, "" for what the case declares.
    """

    grad: bool
    dtype: str
    layout: str

    def of(self, case: Case) -> Case:
        """The case in this style, as far as its inputs have such properties."""
        choices = dict(case.choices)
        floating = [path for path, choice in choices.items() if choice.get("dtype") in _FLOATING]
        for path in floating:
            size = len(choices[path].get("shape", ()) or ())
            if self.dtype:
                choices[path] = {**choices[path], "dtype": self.dtype}
            if self.layout and size > 1 and choices[path].get("layout") == "contiguous":
                choices[path] = {**choices[path], "layout": self.layout}
        return dataclasses.replace(case, choices=choices, grad=tuple(floating) if self.grad else ())


class Generator:
    """`seed`: of all programs."""

    def __init__(self, parts: Parts, seed: int) -> None:
        self._parts, self._seed = parts, seed

    def program(self, number: int) -> Generated | None:
        """The program with a number; None where what was drawn does not fit together, or Dynamo captures no graph."""
        chance = random.Random(f"{self._seed}:{number}")
        plan = _Plan(chance)
        for is_case in self._order(chance):
            if is_case or not plan.values:
                if (case := self._parts.draw(chance)) is not None:
                    plan.add_case(case)
            else:
                plan.add_idiom()
        results = plan.results()
        if len(plan.calls) < 2 or not results:
            return None
        program = _captured(plan.function(results))
        dynamic = chance.random() < 0.2
        names = tuple(call.name for call in plan.calls)
        return Generated(number, program, dynamic, names) if program is not None else None

    @staticmethod
    def _order(chance: random.Random) -> list[bool]:
        """Whether the next part is a case or an idiom. The first one is a case."""
        cases, idioms = chance.choice((1, 1, 2, 2, 3)), chance.randint(1, 5)
        rest = [True] * (cases - 1) + [False] * idioms
        chance.shuffle(rest)
        return [True, *rest]


class _Plan:
    """Calls that run in eager as they are added. What raises, draws random numbers, or gives infinite ones, is not."""

    def __init__(self, chance: random.Random) -> None:
        self.calls: list[_Call] = []
        self.values: list[Any] = []  # floating tensors, each with the number that links name
        self._chance = chance
        self._style = _Style(
            grad=chance.random() < 0.5,
            dtype=chance.choice(("bf16", "f16", "f64")) if chance.random() < 0.2 else "",
            layout=chance.choice(("transposed", "strided", "offset", "sliced")) if chance.random() < 0.25 else "",
        )

    def add_case(self, case: Case) -> None:
        case = self._style.of(case)
        try:
            arguments = case.build()
        except Exception:  # noqa: BLE001 - there is no such form of the case
            return
        links = {
            name: _Link(self._chance.randrange(len(self.values)), fit_for(value, self._chance))
            for name, value in arguments.items()
            if self.values and is_place(value) and self._chance.random() < _JOINED
        }
        self._add(_Call(case.id, case.fn, links, {}, case))

    def add_idiom(self) -> None:
        name = self._chance.choice(sorted(IDIOMS))
        numbers = [number for number, value in enumerate(self.values) if value.dim()]
        if not numbers:
            return
        number = self._chance.choice(numbers[-3:] if self._chance.random() < 0.7 else numbers)
        value = self.values[number]
        wanted = inspect.signature(IDIOMS[name]).parameters
        links, constants = {"x": _Link(number)}, {}
        if "y" in wanted:
            links["y"] = _Link(self._chance.randrange(len(self.values)), fit_for(value, self._chance))
        if "dim" in wanted:
            constants["dim"] = self._chance.randrange(value.dim())
        self._add(_Call(name, IDIOMS[name], links, constants))

    def _add(self, call: _Call) -> None:
        import torch

        before = [value.detach().clone() for value in self.values]
        random_state = torch.get_rng_state()
        try:
            result = _result(call, _arguments(call), self.values)
        except Exception:  # noqa: BLE001 - whatever eager refuses is no program
            result = None
        found = [each for each in tensors_in(result) if _is_useful(each)]
        draws = not torch.equal(random_state, torch.get_rng_state())
        if not found or draws or not all(map(_is_finite, (*self.values, *found))):
            for value, kept in zip(self.values, before, strict=True):
                with torch.no_grad(), contextlib.suppress(RuntimeError):
                    value.copy_(kept)
            return
        self.calls.append(call)
        self.values += found

    def results(self) -> list[int]:
        """The numbers of the values that the program returns: up to four that no call takes, and up to two others."""
        if not self.values:
            return []
        taken = {link.number for call in self.calls for link in call.links.values()}
        ends = [number for number in range(len(self.values)) if number not in taken][-4:]
        others = self._chance.sample(range(len(self.values)), min(self._chance.randrange(3), len(self.values)))
        return sorted({*ends, *others})

    def function(self, results: Sequence[int]) -> Callable[[], Any]:
        """The whole program, with inputs that nothing has written to."""
        arguments = [_arguments(call) for call in self.calls]
        calls = self.calls

        def program() -> Any:
            values: list[Any] = []
            for call, given in zip(calls, arguments, strict=True):
                values += [each for each in tensors_in(_result(call, given, values)) if _is_useful(each)]
            return tuple(values[number] for number in results)

        return program


def _arguments(call: _Call) -> dict[str, Any]:
    return dict(call.constants) if call.case is None else call.case.build()


def _result(call: _Call, given: Mapping[str, Any], values: Sequence[Any]) -> Any:
    linked = {
        name: values[link.number] if link.fit is None else link.fit(values[link.number])
        for name, link in call.links.items()
    }
    return call.function(**{**given, **linked})


def tensors_in(value: Any) -> list[Any]:
    """The tensors of a result, in order. It is small because Dynamo traces it."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [each for item in value for each in tensors_in(item)] if isinstance(value, (tuple, list)) else []


def _is_useful(value: Any) -> bool:
    """Whether a value can be an argument of a later call. Depends on no number, as Dynamo asks too."""
    import torch

    return (
        value.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        and value.layout == torch.strided
        and 0 < value.numel() <= LARGEST
    )


def _is_finite(value: Any) -> bool:
    return bool(value.detach().isfinite().all()) and float(value.detach().abs().max()) <= _LARGEST_NUMBER


def _captured(function: Callable[[], Any]) -> Program | None:
    """The graph of a function; None if Dynamo captures another number of graphs, or one that cannot be written."""
    import torch

    with recorded_compiles() as recorder, contextlib.suppress(Exception):
        torch.compile(function, dynamic=False)()
    if len(recorder.calls) != 1:
        return None
    try:
        program = Program.of_graph(written(recorder.calls[0]))
    except NotWritableError:
        return None
    return renamed(program) if program.steps and program.inputs and program.outputs else None


def renamed(program: Program) -> Program:
    """The program with inputs x0, x1, … and steps v0, v1, …: two programs that differ in names alone become equal."""
    names = dict(_numbered("x", program.inputs)) | dict(_numbered("v", [step.name for step in program.steps]))
    steps = [Step(names[step.name], step.with_constants(names).expression) for step in program.steps]
    inputs = {names[name]: value for name, value in program.inputs.items()}
    return Program(inputs, tuple(steps), tuple(names[name] for name in program.outputs))


def _numbered(letter: str, names: Sequence[str] | Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for number, name in enumerate(names):
        yield name, f"{letter}{number}"
