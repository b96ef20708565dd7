"""Case: what is compiled. A function, its arguments, and one value of each axis. A case knows no device.

    @case(x=image(3, size=[224, 256], dtype=["u8", "f32"]), require={"all": {"kernels": 1}})
    def test_hflip(x):
        return x.flip(-1)

Every list or dict among the keywords is an axis. The labels of a case, in the order of the axes, make its id: this
function declares hflip-224-u8, hflip-224-f32, hflip-256-u8 and hflip-256-f32.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from conformance.cases import call_modes
from conformance.cases.inputs import Input
from conformance.cases.pairwise import pairwise_rows
from conformance.documentation import reference
from conformance.errors import ConformanceError
from conformance.settings import CHECKS

#: Keywords of @case that say how to compile and call the function. Each may be an axis.
COMPILE_KEYWORDS = ("grad", "dynamic", "config", "mode")

#: The number of the call with other sizes. Ordinary calls are 0 and 1.
_RESIZED_CALL = 2

_LABEL = re.compile(r"[A-Za-z0-9_.+]+")


class CaseError(ConformanceError, ValueError):
    """A case that is declared wrongly. The message says where, what is wrong, and what would be right."""


@dataclass(frozen=True, eq=False)
class Case:
    """One function with one value of each axis.

    `operator`: the file's name without `test_`. `name`: the function's name without `test_`.
    `axes`: the names of the axes. `labels`: one label for each of them.
    `arguments`: name → Input or constant, in the order of the signature. `choices`: input → property → value.
    `grad`: the inputs that require a gradient. `dynamic`: whether shapes are dynamic.
    `config`: options of Inductor, and of Dynamo as `dynamo.capture_scalar_outputs`. `mode`: see call_modes.py.
    `prepare`: called before the arguments are made.
    `only`: selector → reason: the targets and torch versions that the case is for; empty: all.
    `require`, `missed`: selector → fact → value: see expectations/. `numerics`: see numerics_policy.py.
    `combined`: made by --thorough from axes that vary one at a time. Nothing is stored for such a case.
    `checks`: the only checks of the case; empty: all that the run selects.
    """

    operator: str
    name: str
    labels: tuple[str, ...]
    fn: Callable[..., Any]
    file: Path
    arguments: Mapping[str, Any]
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    grad: tuple[str, ...] = ()
    dynamic: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    require: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    numerics: Mapping[str, Any] = field(default_factory=dict)
    missed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    axes: tuple[str, ...] = ()
    mode: str = "plain"
    combined: bool = False
    prepare: Callable[[], None] | None = None
    only: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()

    @property
    def has_stored_code(self) -> bool:
        """Whether generated code is stored for the case, and compared with what is stored."""
        return not self.combined and (not self.checks or "code" in self.checks)

    @property
    def id(self) -> str:
        """`flip/hflip-224-u8-channels_last`: also the path of its snapshot in expected_code/, without .txt."""
        return f"{self.operator}/{'-'.join((self.name, *self.labels))}"

    def build(self, call: int | str = 0) -> dict[str, Any]:
        """The arguments by name. Tensors are on the CPU; cases/seeds.py says what their values depend on.

        `call`: the number of the call, or the name of its group of special values.
        Tensors named in `grad` are leaves that require a gradient. Calls `prepare` first, and raises what that raises.
        """
        if self.prepare is not None:
            self.prepare()
        built = {}
        for position, (name, argument) in enumerate(self.arguments.items()):
            if isinstance(argument, Input):
                value = argument.build(self.choices[name], position, call, in_order=call == 0)
                built[name] = value.requires_grad_(name in self.grad)
            else:
                built[name] = argument
        return built


class CaseFunction(Protocol):
    """What @case makes of a function: a test for pytest, and its cases."""

    cases: list[Case]
    #: The cases that --thorough adds: combinations of axes that vary one at a time.
    combined: Callable[[], list[Case]]

    def __call__(self, conformance_item: Any, conformance_report: Any) -> None: ...


@dataclass(frozen=True)
class Axis:
    """`name`: "dtype", or "x.dtype" if it belongs to one input. `values`: label → value; the first is the base."""

    name: str
    values: Mapping[str, Any]

    @classmethod
    def from_values(cls, name: str, values: Any) -> Axis:
        """An axis from a list of values or a dict of label → value. Raises CaseError for labels that cannot be used."""
        if isinstance(values, Mapping):
            labelled = dict(values)
        else:
            labelled = {}
            for value in values:
                label = label_of(name.rpartition(".")[2], value)
                if label in labelled:
                    raise CaseError(
                        f"axis {name!r} has the label {label!r} twice; remove one of the two values, "
                        "or label the values yourself: {'label': value}"
                    )
                labelled[label] = value
        if not labelled:
            raise CaseError(f"axis {name!r} has no values; give it at least one, or leave the keyword out")
        for label in labelled:
            if not _LABEL.fullmatch(label):
                raise CaseError(
                    f"axis {name!r}: the label {label!r} cannot be part of a test id; use letters, digits, '_', '.' "
                    "and '+', and label other values yourself: {'label': value}"
                )
        return cls(name, labelled)


def label_of(axis: str, value: Any) -> str:
    """The label of an axis's value, as it stands in an id: 224, u8, 64x1000, beta0.5, backward, dynamic."""
    if axis == "grad":
        return {True: "backward", False: "forward", "": "forward"}.get(value) or f"grad_{value.replace(' ', '_')}"
    if axis == "dynamic":
        return "dynamic" if value else "static"
    if isinstance(value, bool):
        return axis if value else f"no_{axis}"
    if isinstance(value, (tuple, list)):
        return "x".join(str(size) for size in value) or "0d"
    if isinstance(value, (int, float)) and axis != "size":
        return f"{axis}{value:g}".replace("-", "m")
    return str(value)


def is_axis(name: str, value: Any) -> bool:
    """Whether a keyword's value is an axis: a list, or a dict of label → value.

    A dict of compiler options, `config={"cpp.simdlen": 1}`, is one value; a dict of such dicts is an axis.
    """
    if name == "config" and isinstance(value, Mapping):
        return bool(value) and all(isinstance(options, Mapping) for options in value.values())
    return isinstance(value, (list, Mapping))


def case(
    *,
    require: Mapping[str, Mapping[str, Any]] | None = None,
    missed: Mapping[str, Mapping[str, Any]] | None = None,
    numerics: Mapping[str, Any] | None = None,
    prepare: Callable[[], None] | None = None,
    only: Mapping[str, str] | None = None,
    checks: Sequence[str] = (),
    vary: str = "product",
    also: Sequence[Mapping[str, Any]] = (),
    **declared: Any,
) -> Callable[[Callable[..., Any]], CaseFunction]:
    """Declares the cases of a function: how its arguments are made, how it is compiled, and what must be true then.

        @case(
            x=tensor(64, 1000, dtype=["f32", "bf16"]),      # an input; its dtype is an axis: 2 values
            dim=[0, -1],                                    # constants; an axis: 2 values
            grad=[False, True],                             # an axis: 2 values
            vary="one_at_a_time",                           # 4 cases instead of 2 × 2 × 2
            also=[{"x.dtype": "bf16", "grad": True}],       # one more
            require={"all": {"fallbacks": []}, "cpu f32": {"vectorised": "yes"}},
            missed={"gpu dim0": {"kernels": 1, "judgement": "one kernel can hold a column"}},
            numerics={"for": {"cuda bf16": {"factor": 8, "reason": "exp is computed in bf16"}}},
        )
        def test_softmax(x, dim):
            return x.softmax(dim)

    declares softmax-f32-dim0-forward (the base: the first value of each axis), softmax-bf16-dim0-forward,
    softmax-f32-dimm1-forward, softmax-f32-dim0-backward and softmax-bf16-dim0-backward. pytest runs each on every
    target; `softmax-f32-dim0-forward-cuda_sm90` is one of its ids.

    Keywords that declare arguments and axes:

    - The name of a parameter declares its argument: an input (tensor(), image()), a constant, or an axis of constants.
    - `grad`: the inputs that require a gradient, as "x y", or True for all. `dynamic`: dynamic shapes (bool).
      `config`: options of Inductor, and of Dynamo as `dynamo.capture_scalar_outputs`.
      `mode`: "plain", "no_grad", "inference" or "autocast".
    - Any other keyword is a property (`dtype`, `shape`, `layout`, `size`) for all inputs that do not set it themselves.

    A list is an axis, and its labels are made from its values. A dict of label → value is an axis with your labels. A
    tuple is one value: `shape=[(20,), (64, 1000)]` has two.

    Keywords that choose the combinations:

    - `vary`: "product" (the default) declares all combinations of the axes. "one_at_a_time" declares the base and, for
      each other value of an axis, the base with that value. --thorough then adds rows until all pairs of values occur.
    - `also`: more combinations. Each is a dict of axis → label or value; axes that it does not name have their base
      value. The axis of one input is named "x.dtype".

    Keywords that say what must be true. Their selectors are "all" or words that must all apply: a target's name, cpu,
    cuda, xpu, gpu, labels, and ranges of torch versions such as "torch>=2.13":

    - `require`: selector → fact → value. A fact with another value fails the check `requirements`, on every torch
      version. `python -m conformance show ID --facts` lists the facts. See expectations/requirements.py.
    - `missed`: as `require`, for what Inductor should do and does not do yet; `judgement` says why it should. It fails
      nothing; `python -m conformance missed` lists it. See expectations/missed_optimisations.py.
    - `numerics`: a wider or narrower tolerance, or a check to leave out, each with a reason. See numerics_policy.py.
    - `only`: selector → reason, if the case cannot run everywhere: {"gpu": "Triton has no backend for the CPU"}. On
      other targets pytest skips it and prints the reason.
    - `checks`: the only checks of the case, such as ("numerics", "requirements"); without it, all. Without "code",
      nothing is stored. Such a case is excluded from a target that this machine lacks, with the reason: nothing
      would be compared there.
    - `prepare`: a function that is called before the arguments are made, such as one that loads C++ operators.

    Raises CaseError for a wrong declaration; pytest prints it with the file and line.
    """

    def decorate(fn: Callable[..., Any]) -> CaseFunction:
        where = fn.__name__
        if not where.startswith("test_"):
            raise CaseError(
                f"{where}: the name of a case's function must start with test_; rename it to test_{where.lstrip('_')}"
            )
        if vary not in ("product", "one_at_a_time"):
            raise CaseError(f"{where}: vary is {vary!r}; it must be 'product' or 'one_at_a_time'")
        unknown = [name for name in checks if name not in CHECKS]
        if unknown or isinstance(checks, str):
            raise CaseError(f"{where}: checks is {checks!r}; it must be a tuple of {', '.join(CHECKS)}")
        common = {
            "require": require or {},
            "missed": missed or {},
            "numerics": numerics or {},
            "prepare": prepare,
            "only": only or {},
            "checks": tuple(checks),
        }
        declaration = _Declaration(fn, declared, common)
        cases = list(declaration.cases(_declared_rows(declaration.axes, vary, also, where)))
        repeated = [id_ for id_, count in Counter(each.id for each in cases).items() if count > 1]
        if repeated:
            raise CaseError(
                f"{where}: two cases have the id {min(repeated)}; also= repeats a combination: leave it out there"
            )

        def combined() -> list[Case]:
            if vary == "product":
                return []
            rows = pairwise_rows([list(axis.values) for axis in declaration.axes], [each.labels for each in cases])
            return list(declaration.cases(rows, combined=True))

        def test(conformance_item: Any, conformance_report: Any) -> None:
            conformance_item.run(conformance_report)

        test.__name__, test.__qualname__, test.__doc__ = fn.__name__, fn.__qualname__, fn.__doc__
        test.__module__ = fn.__module__
        function = cast("CaseFunction", test)  # a function has no place to declare its attributes
        function.cases, function.combined = cases, combined
        return function

    return decorate


def _holds_inputs(value: Any) -> bool:
    """Whether a value is an input, or a list, tuple, dict or dataclass with an input in it."""
    if isinstance(value, Input):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_inputs, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_inputs, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(_holds_inputs(getattr(value, field.name)) for field in dataclasses.fields(value))
    return False


class _Declaration:
    """A function, its arguments and its axes, as @case declares them. Raises CaseError for a keyword without use."""

    def __init__(self, fn: Callable[..., Any], declared: Mapping[str, Any], common: Mapping[str, Any]) -> None:
        self.fn = fn
        self.common = common
        self.parameters = list(inspect.signature(fn).parameters)
        self._refuse_missing_arguments(declared)
        self._refuse_collections_of_inputs(declared)
        self.inputs = {name: declared[name] for name in self.parameters if isinstance(declared[name], Input)}
        self._refuse_unknown_keywords(declared)
        self.axes: list[Axis] = []
        self.fixed: dict[str, Any] = {}
        for name, value in declared.items():
            if isinstance(value, Input):
                for prop, choice in value.properties.items():
                    self._add(prop, f"{name}.{prop}", choice)
            else:
                self._add(name, name, value)

    def _add(self, kind: str, name: str, value: Any) -> None:
        if is_axis(kind, value):
            self.axes.append(Axis.from_values(name, value))
        else:
            self.fixed[name] = value

    def _refuse_missing_arguments(self, declared: Mapping[str, Any]) -> None:
        missing = [name for name in self.parameters if name not in declared]
        if missing:
            raise CaseError(
                f"{self.fn.__name__}: no input is declared for the argument {missing[0]!r}: "
                f"write @case({missing[0]}=tensor(20))"
            )

    def _refuse_collections_of_inputs(self, declared: Mapping[str, Any]) -> None:
        for name in self.parameters:
            if not isinstance(declared[name], Input) and _holds_inputs(declared[name]):
                kind = type(declared[name]).__name__
                raise CaseError(
                    f"{self.fn.__name__}: {name!r} is a {kind} of inputs; declare each as an argument of its own, such "
                    f"as {name}_0=tensor(20), and make the {kind} in the function"
                )

    def _refuse_unknown_keywords(self, declared: Mapping[str, Any]) -> None:
        open_properties = {
            name for each in self.inputs.values() for name, value in each.properties.items() if value is None
        }
        for name in declared:
            if name not in self.parameters and name not in COMPILE_KEYWORDS and name not in open_properties:
                raise CaseError(
                    f"{self.fn.__name__}: the keyword {name!r} is neither a parameter of the function "
                    f"({', '.join(self.parameters) or 'it has none'}), nor one of {', '.join(COMPILE_KEYWORDS)}, "
                    f"nor a property that an input leaves open ({', '.join(sorted(open_properties)) or 'none does'}): "
                    f"{reference('public-names', 'keywords-of-case')}"
                )

    def cases(self, rows: Iterable[tuple[str, ...]], *, combined: bool = False) -> Iterator[Case]:
        """A case for each row of labels. Raises CaseError for an unknown mode or a `grad` that names no input."""
        where = self.fn.__name__
        file = Path(inspect.getsourcefile(self.fn) or "unknown")
        for labels in rows:
            chosen = self.fixed | {axis.name: axis.values[label] for axis, label in zip(self.axes, labels, strict=True)}
            yield Case(
                operator=file.stem.removeprefix("test_"),
                name=where.removeprefix("test_"),
                labels=labels,
                fn=self.fn,
                file=file,
                arguments={name: self.inputs.get(name, chosen.get(name)) for name in self.parameters},
                choices={name: _choices(name, value, chosen) for name, value in self.inputs.items()},
                grad=_grad_names(chosen.get("grad"), list(self.inputs), where),
                dynamic=bool(chosen.get("dynamic", False)),
                config=dict(chosen.get("config") or {}),
                mode=_mode(chosen.get("mode", "plain"), where),
                **self.common,
                axes=tuple(axis.name for axis in self.axes),
                combined=combined,
            )


def _choices(name: str, argument: Input, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The input's properties: its own value, else that of the case's keyword, else None."""
    choices = {}
    for prop in argument.properties:
        value = chosen.get(f"{name}.{prop}")
        choices[prop] = value if value is not None else chosen.get(prop)
    return choices


def _declared_rows(
    axes: Sequence[Axis], vary: str, also: Sequence[Mapping[str, Any]], where: str
) -> Iterator[tuple[str, ...]]:
    labels = [list(axis.values) for axis in axes]
    if vary == "product":
        yield from itertools.product(*labels)
    else:
        base = tuple(names[0] for names in labels)
        yield base
        for position, names in enumerate(labels):
            for other in names[1:]:
                yield (*base[:position], other, *base[position + 1 :])
    for combination in also:
        yield _row(axes, combination, where)


def _row(axes: Sequence[Axis], combination: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The labels of a combination from `also`, with the base label on the axes that it does not name."""
    names = [axis.name for axis in axes]
    unknown = set(combination) - set(names)
    if unknown:
        raise CaseError(f"{where}: also= names the axis {min(unknown)!r}; the axes are {', '.join(names) or 'none'}")
    row = []
    for axis in axes:
        wanted = combination.get(axis.name, next(iter(axis.values)))
        is_label = isinstance(wanted, str) and wanted in axis.values
        label = wanted if is_label else label_of(axis.name.rpartition(".")[2], wanted)
        if label not in axis.values:
            raise CaseError(
                f"{where}: also= wants {axis.name}={wanted!r}; the labels of {axis.name} are {', '.join(axis.values)}"
            )
        row.append(label)
    return tuple(row)


def _mode(value: Any, where: str) -> str:
    if value not in call_modes.MODES:
        raise CaseError(f"{where}: mode is {value!r}; it must be one of {', '.join(call_modes.MODES)}")
    return value


def _grad_names(value: Any, inputs: list[str], where: str) -> tuple[str, ...]:
    if not value:
        return ()
    if value is True:
        return tuple(inputs)
    names = tuple(value.split())
    unknown = [name for name in names if name not in inputs]
    if unknown:
        raise CaseError(f"{where}: grad names {unknown[0]!r}, which is no input; the inputs are {', '.join(inputs)}")
    return names


def resized_arguments(case: Case, change: Callable[[int], int]) -> dict[str, Any] | None:
    """A case's arguments with `change` applied to every size above 1; None if no input has such a size.

    Sizes are what `shape` and `size` declare. Equal sizes stay equal. Sizes of 1 broadcast, so they stay 1.
    """
    built, changed = case.build(_RESIZED_CALL), False
    for position, (name, argument) in enumerate(case.arguments.items()):
        if not isinstance(argument, Input):
            continue
        choice = argument.values(case.choices[name])
        resized = dict(choice)
        if "shape" in choice:
            resized["shape"] = tuple(change(size) if size > 1 else size for size in choice["shape"])
        elif choice.get("size", 0) > 1:
            resized["size"] = change(choice["size"])
        changed |= resized != choice
        value = argument.build(resized, position, _RESIZED_CALL)
        built[name] = value.requires_grad_(name in case.grad)
    return built if changed else None
