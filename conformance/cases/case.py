"""Case: what is compiled. A function, how its arguments are made, and its axes; knows no device.

    @case(x=image(3, size=[224, 256], dtype=["u8", "f32"]), require={"all": {"kernels": 1}})
    def test_hflip(x):
        return x.flip(-1)

Every list or dict among the keywords is an axis; its labels, in the order of declaration, make the id.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.cases import call_modes
from conformance.cases.inputs import Input, seed_of
from conformance.cases.pairwise import pairwise_rows
from conformance.errors import ConformanceError

#: Keywords of @case that say how to compile; each may be an axis.
COMPILE_KEYWORDS = ("grad", "dynamic", "config", "mode")

_LABEL = re.compile(r"[A-Za-z0-9_.+]+")


class CaseError(ConformanceError, ValueError):
    """A case that is declared wrongly: the message says where, and what would be right."""


@dataclass(frozen=True, eq=False)
class Case:
    """One function with one value for each axis.

    `operator`: the file's name without `test_`; `name`: the function's, likewise; `labels`: one for each axis, whose
    names are `axes`.
    `arguments`: name → Input or constant, in the order of the signature; `choices`: argument → property → value.
    `grad`: names of the arguments that require a gradient; `dynamic`: dynamic shapes; `config`: Inductor options, and
    Dynamo's as `dynamo.capture_scalar_outputs`; `mode`: what surrounds the call (see call_modes.py).
    `combined`: not declared, but made of what is declared one at a time, for --thorough; nothing is stored for it.
    `prepare`: called before arguments are built. `only`: selector → reason, of the targets and torch versions that it
    is for; without any, for all.
    `require`: selector → fact → value (see requirements.py); `missed`: likewise (see missed_optimisations.py);
    `numerics`: see numerics_policy.py.
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

    @property
    def id(self) -> str:
        """`flip/hflip-224-u8-channels_last`: also the path of its snapshot below expected_code/, without .txt."""
        return f"{self.operator}/{'-'.join((self.name, *self.labels))}"

    def build(self, seed: int = 0) -> dict[str, Any]:
        """The arguments, tensors on the cpu; other for another seed. Those in `grad` are leaves that require it.

        Calls `prepare` first, and passes on what that raises.
        """
        if self.prepare is not None:
            self.prepare()
        built = {}
        for name, argument in self.arguments.items():
            if isinstance(argument, Input):
                value = argument.build(self.choices[name], seed_of(f"{self.id}/{name}/{seed}"))
                built[name] = value.requires_grad_(name in self.grad)
            else:
                built[name] = argument
        return built


@dataclass(frozen=True)
class Axis:
    name: str  # "dtype", or "x.dtype" where it belongs to one input
    values: Mapping[str, Any]  # label → value, in order; the first is the base

    @classmethod
    def from_values(cls, name: str, values: Any) -> Axis:
        if isinstance(values, Mapping):
            labelled = dict(values)
        else:
            labelled = {}
            for value in values:
                label = label_of(name.rpartition(".")[2], value)
                if label in labelled:
                    raise CaseError(f"axis {name!r} has the label {label!r} twice")
                labelled[label] = value
        if not labelled:
            raise CaseError(f"axis {name!r} has no values")
        for label in labelled:
            if not _LABEL.fullmatch(label):
                raise CaseError(
                    f"axis {name!r}: the label {label!r} cannot stand in an id; "
                    "use letters, digits, '_', '.' and '+', or name the value: {'label': value}"
                )
        return cls(name, labelled)


def label_of(axis: str, value: Any) -> str:
    """How a value of an axis reads in an id: 224, u8, 64x1000, beta0.5, backward, dynamic."""
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
    """Lists are axes; so are dicts of label → value. A dict of options for Inductor is one value."""
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
    vary: str = "product",
    also: Sequence[Mapping[str, Any]] = (),
    **declared: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the cases of a test function.

    Keywords that name a parameter of the function give its argument: an Input, a constant, or an axis of constants.
    `grad` (names of arguments, True for all inputs), `dynamic` (bool) and `config` (Inductor's options, and
    Dynamo's as `dynamo.capture_scalar_outputs`) say how to compile, `mode` ("plain", "no_grad", "inference",
    "autocast") what surrounds the call. Any other keyword is a property that inputs inherit
    (`dtype`, `shape`, `layout`, `size`).

    `vary`: "product" combines all axes; "one_at_a_time" takes the first value of each, and varies one axis from
    there. `also`: further combinations, axis → label or value, the rest as in the base.
    `require`: selector → facts; see requirements.py. `missed`: the same of what Inductor should do and does not; see
    missed_optimisations.py. `numerics`: see numerics_policy.py. `prepare`: called before arguments are made, such as to
    load C++ operators that the function calls (see cpp_extension.py). `only={"gpu": "Triton has no backend for the
    cpu"}`: where the case can run, by selector, and the reason; elsewhere its items are skipped, and say so.

    Raises CaseError for a keyword that nothing uses, a missing argument, and labels that make ids ambiguous.
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        given = {"require": require or {}, "missed": missed or {}, "numerics": numerics or {}, "prepare": prepare}
        given["only"] = only or {}
        cases = list(_expand(fn, declared, vary, also, given))
        duplicates = {name for name, count in Counter(c.id for c in cases).items() if count > 1}
        if duplicates:
            raise CaseError(f"{fn.__name__}: two cases have the id {min(duplicates)}")

        def test(conformance_item, conformance_report):
            conformance_item.run(conformance_report)

        test.__name__, test.__qualname__, test.__doc__ = fn.__name__, fn.__qualname__, fn.__doc__
        test.__module__ = fn.__module__
        test.cases = cases
        test.combined = lambda: list(_expand(fn, declared, "combined", cases, given)) if vary == "one_at_a_time" else []
        return test

    return decorate


def _expand(fn, declared, vary, also, given) -> Iterator[Case]:
    where = fn.__name__
    if not where.startswith("test_"):
        raise CaseError(f"{where}: the name of a case's function starts with test_")
    if vary not in ("product", "one_at_a_time", "combined"):
        raise CaseError(f"{where}: vary is 'product' or 'one_at_a_time', not {vary!r}")
    parameters = list(inspect.signature(fn).parameters)
    missing = [p for p in parameters if p not in declared]
    if missing:
        raise CaseError(
            f"{where}: nothing says how to make the argument {missing[0]!r}: @case({missing[0]}=tensor(20))"
        )
    inputs = {name: declared[name] for name in parameters if isinstance(declared[name], Input)}
    inheritable = {p for i in inputs.values() for p, value in i.properties.items() if value is None}
    for name in declared:
        if name not in parameters and name not in COMPILE_KEYWORDS and name not in inheritable:
            raise CaseError(
                f"{where}: {name!r} is neither a parameter of the function nor one of {', '.join(COMPILE_KEYWORDS)} "
                f"nor a property that an input leaves open ({', '.join(sorted(inheritable)) or 'none does'})"
            )

    axes: list[Axis] = []
    fixed: dict[str, Any] = {}
    for name, value in declared.items():
        if isinstance(value, Input):
            for prop, choice in value.properties.items():
                if is_axis(prop, choice):
                    axes.append(Axis.from_values(f"{name}.{prop}", choice))
                else:
                    fixed[f"{name}.{prop}"] = choice
        elif is_axis(name, value):
            axes.append(Axis.from_values(name, value))
        else:
            fixed[name] = value

    file = Path(inspect.getsourcefile(fn) or "unknown")
    for labels in _combinations(axes, vary, also, where):
        chosen = fixed | {axis.name: axis.values[label] for axis, label in zip(axes, labels, strict=True)}
        choices = {
            name: {
                prop: chosen.get(f"{name}.{prop}") if chosen.get(f"{name}.{prop}") is not None else chosen.get(prop)
                for prop in value.properties
            }
            for name, value in inputs.items()
        }
        yield Case(
            operator=file.stem.removeprefix("test_"),
            name=where.removeprefix("test_"),
            labels=labels,
            fn=fn,
            file=file,
            arguments={name: inputs.get(name, chosen.get(name)) for name in parameters},
            choices=choices,
            grad=_grad_names(chosen.get("grad"), list(inputs), where),
            dynamic=bool(chosen.get("dynamic", False)),
            config=dict(chosen.get("config") or {}),
            mode=_mode(chosen.get("mode", "plain"), where),
            **given,
            axes=tuple(axis.name for axis in axes),
            combined=vary == "combined",
        )


def _combinations(axes: list[Axis], vary: str, also, where: str) -> Iterator[tuple[str, ...]]:
    labels = [list(axis.values) for axis in axes]
    if vary == "combined":
        yield from pairwise_rows(labels, [case.labels for case in also])
        return
    if vary == "product":
        yield from itertools.product(*labels)
    else:
        base = tuple(names[0] for names in labels)
        yield base
        for position, names in enumerate(labels):
            for other in names[1:]:
                yield (*base[:position], other, *base[position + 1 :])
    for combination in also:
        yield _combination(axes, combination, where)


def _combination(axes: list[Axis], combination: Mapping[str, Any], where: str) -> tuple[str, ...]:
    unknown = set(combination) - {axis.name for axis in axes}
    if unknown:
        raise CaseError(f"{where}: also= names {min(unknown)!r}, and the axes are {[a.name for a in axes]}")
    row = []
    for axis in axes:
        wanted = combination.get(axis.name, next(iter(axis.values)))
        label = (
            wanted
            if isinstance(wanted, str) and wanted in axis.values
            else label_of(axis.name.rpartition(".")[2], wanted)
        )
        if label not in axis.values:
            raise CaseError(f"{where}: also= wants {axis.name}={wanted!r}, which has only {', '.join(axis.values)}")
        row.append(label)
    return tuple(row)


def _mode(value: Any, where: str) -> str:
    if value not in call_modes.MODES:
        raise CaseError(f"{where}: mode is one of {', '.join(call_modes.MODES)}, not {value!r}")
    return value


def _grad_names(value: Any, inputs: list[str], where: str) -> tuple[str, ...]:
    if not value:
        return ()
    if value is True:
        return tuple(inputs)
    names = tuple(value.split())
    unknown = [name for name in names if name not in inputs]
    if unknown:
        raise CaseError(f"{where}: grad names {unknown[0]!r}, and the inputs are {', '.join(inputs)}")
    return names


def resized_arguments(case: Case, change: Callable[[int], int], seed: int = 2) -> dict[str, Any] | None:
    """A case's arguments with every size above 1 changed, equal ones alike; None where no input has such a size.

    Sizes are what inputs are declared by, `shape` and `size`; sizes of 1 broadcast, and stay.
    """
    built, changed = case.build(seed), False
    for name, argument in case.arguments.items():
        if not isinstance(argument, Input):
            continue
        choice = dict(argument.defaults) | {key: v for key, v in case.choices[name].items() if v is not None}
        wanted = dict(choice)
        if "shape" in choice:
            wanted["shape"] = tuple(change(size) if size > 1 else size for size in choice["shape"])
        elif choice.get("size", 0) > 1:
            wanted["size"] = change(choice["size"])
        changed |= wanted != choice
        value = argument.build(wanted, seed_of(f"{case.id}/{name}/{seed}"))
        built[name] = value.requires_grad_(name in case.grad)
    return built if changed else None
