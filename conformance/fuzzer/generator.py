"""Generates programs: functions of cases and idioms, joined where types and shapes allow, as one graph of Dynamo.

A program depends on the seed, its number, the cases, torch and the corpus, and on nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.dynamo_graphs import NotWritableError, recorded_compiles, written
from conformance.cases.case import Case
from conformance.containers import copy_to
from conformance.fuzzer.fitting import Fit, fit_for
from conformance.fuzzer.forms import SEEDED, Form, drawn_form
from conformance.fuzzer.idioms import IDIOMS
from conformance.fuzzer.parts import LARGEST, Parts, is_place
from conformance.minimisation.program import Program, Step

#: How often an argument of a case takes a value that was computed before.
_JOINED = 0.65
#: Larger numbers lose all digits in the next step: what is wrong then cannot be told from what is rounded.
_LARGEST_NUMBER = 1e6
_FLOATING = ("f64", "f32", "f16", "bf16")
#: Levels of vmap, which tell nothing, and elements that nobody has written.
_UNKNOWN = re.compile(r"_functorch|\.resize\(")
#: The most steps of a program that another one goes on with.
_MOST_STEPS = 60


@dataclass(frozen=True)
class Generated:
    """`program`: with inputs x0, x1, …, and steps v0, v1, …, in its `form`; `plain`: in none. `parts`: ids of cases and
    names of idioms, in the order of the program.
    """

    number: int
    program: Program
    form: Form
    parts: tuple[str, ...]
    plain: Program


@dataclass(frozen=True)
class _Link:
    """The value `number` of those that were computed before, as an argument. `fit`: None takes it as it is."""

    number: int
    fit: Fit | None = None


@dataclass(frozen=True)
class _Call:
    """`function` is called with `links` by name, and with copies of `given`, or with the arguments of `case`."""

    name: str
    function: Callable[..., Any]
    links: Mapping[str, _Link]
    given: Mapping[str, Any] = field(default_factory=dict)
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

    def program(self, number: int, parent: Generated | None = None) -> Generated | None:
        """The program with a number; None where what was drawn does not fit together, or Dynamo captures no graph.

        `parent`: a program that it goes on with.
        """
        import torch

        chance = random.Random(f"{self._seed}:{number}")
        torch.manual_seed(0)
        plan = _Plan(chance)
        names: tuple[str, ...] = ()
        if parent is not None and len(parent.plain.steps) <= _MOST_STEPS:
            plan.add_program(parent.plain, draws=parent.form.draws)
            names = parent.parts if plan.calls else ()
        for is_case in self._order(chance, continues=bool(names)):
            if is_case or not plan.floating():
                if (case := self._parts.draw(chance)) is not None:
                    plan.add_case(case)
            else:
                plan.add_idiom()
        results = plan.results()
        if len(plan.calls) < 2 or not results:
            return None
        plain = _captured(plan.function(results))
        if plain is None:
            return None
        if not _has_gradients(plain):
            return None
        program, form = drawn_form(plain, chance, SEEDED if plan.draws else {})
        parts = (*names, *(call.name for call in plan.calls[bool(names) :]))
        return Generated(number, program, form, parts, plain)

    @staticmethod
    def _order(chance: random.Random, *, continues: bool) -> list[bool]:
        """Whether the next part is a case or an idiom. The first one is a case."""
        cases, idioms = chance.choice((1, 1, 2, 2, 3)), chance.randint(1, 5)
        if continues:
            cases, idioms = chance.choice((0, 0, 1)), chance.randint(1, 3)
        rest = [True] * (cases - 1) + [False] * idioms
        chance.shuffle(rest)
        return [True, *rest] if cases else rest


class _Plan:
    """Calls that run in eager as they are added. What raises or gives infinite numbers is not, and what draws random
    numbers only in some plans.

    `draws`: whether a call draws some.
    """

    def __init__(self, chance: random.Random) -> None:
        self.calls: list[_Call] = []
        self.values: list[Any] = []  # tensors, each with the number that links name
        self.draws = False
        self._chance = chance
        self._may_draw = chance.random() < 0.15
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
        floating = self.floating()
        links = {
            name: _Link(self._chance.choice(floating), fit_for(value, self._chance))
            for name, value in arguments.items()
            if floating and is_place(value) and self._chance.random() < _JOINED
        }
        self._add(_Call(case.id, case.fn, links, {}, case))

    def add_program(self, program: Program, *, draws: bool) -> None:
        self._may_draw |= draws
        self._add(_Call("program", program.function, {}, program.inputs))

    def floating(self) -> list[int]:
        """The numbers of the floating values that have elements."""
        return [number for number, value in enumerate(self.values) if value.is_floating_point()]

    def add_idiom(self) -> None:
        name = self._chance.choice(sorted(IDIOMS))
        floating = self.floating()
        numbers = [number for number in floating if self.values[number].dim()]
        if not numbers:
            return
        number = self._chance.choice(numbers[-3:] if self._chance.random() < 0.7 else numbers)
        value = self.values[number]
        wanted = inspect.signature(IDIOMS[name]).parameters
        links, given = {"x": _Link(number)}, {}
        if "y" in wanted:
            links["y"] = _Link(self._chance.choice(floating), fit_for(value, self._chance))
        if "dim" in wanted:
            given["dim"] = self._chance.randrange(value.dim())
        self._add(_Call(name, IDIOMS[name], links, given))

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
        if not found or (draws and not self._may_draw) or not all(map(_is_finite, (*self.values, *found))):
            for value, kept in zip(self.values, before, strict=True):
                with torch.no_grad(), contextlib.suppress(RuntimeError):
                    value.copy_(kept)
            return
        self.calls.append(call)
        self.draws |= draws
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
    return copy_to(dict(call.given), "cpu") if call.case is None else call.case.build()


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
        not value.is_complex()
        and (not value.is_floating_point() or value.dtype.itemsize > 1)
        and value.layout == torch.strided
        and not value.is_quantized
        and 0 < value.numel() <= LARGEST
    )


def _is_finite(value: Any) -> bool:
    if not value.is_floating_point():
        return True
    return bool(value.detach().isfinite().all()) and float(value.detach().abs().max()) <= _LARGEST_NUMBER


def _has_gradients(program: Program) -> bool:
    """Whether eager computes the gradients of all results; true of a program that needs none."""
    import torch

    inputs = copy_to(dict(program.inputs), "cpu")
    wanted = [value for value in inputs.values() if value.requires_grad]
    if not wanted:
        return True
    try:
        results = [each for each in tensors_in(program.function(**inputs)) if each.requires_grad]
        if results:
            torch.autograd.grad(results, wanted, list(map(torch.ones_like, results)), allow_unused=True)
    except RuntimeError:  # a value that is needed was written to
        return False
    return True


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
    is_whole = bool(program.steps and program.inputs and program.outputs)
    return renamed(program) if is_whole and not _UNKNOWN.search(program.text) else None


def renamed(program: Program) -> Program:
    """The program with inputs x0, x1, … and steps v0, v1, …: two programs that differ in names alone become equal."""
    names = dict(_numbered("x", program.inputs)) | dict(_numbered("v", [step.name for step in program.steps]))
    steps = [Step(names[step.name], step.with_constants(names).expression) for step in program.steps]
    inputs = {names[name]: value for name, value in program.inputs.items()}
    return dataclasses.replace(
        program,
        inputs=inputs,
        steps=tuple(steps),
        outputs=tuple(names[name] for name in program.outputs),
        between=tuple(Step("", line).with_constants(names).expression for line in program.between),
    )


def _numbered(letter: str, names: Sequence[str] | Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for number, name in enumerate(names):
        yield name, f"{letter}{number}"
