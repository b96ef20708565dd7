"""What is measured, and where: cases, optionally with other values of their axes, and one target."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.bench import BenchError
from conformance.cases.adhoc import AdhocOptions, is_adhoc_function, resolve_case
from conformance.cases.case import COMPILE_KEYWORDS, Case, label_of
from conformance.cases.dtypes import DTYPES
from conformance.cases.inputs import LAYOUTS
from conformance.cases.lookup import is_test_path, selected_cases
from conformance.cases.target_selection import select_targets
from conformance.devices.machine import Machine
from conformance.devices.targets import DEVICES, Target, TargetError
from conformance.devices.vendor_devices import vendor_devices

_NO_OPTIONS = AdhocOptions()

#: Axes whose values are fixed names.
_NAMED_VALUES = {"dtype": tuple(DTYPES), "layout": LAYOUTS}


def select_cases(words: Sequence[str], axes: Sequence[str] = (), options: AdhocOptions = _NO_OPTIONS) -> list[Case]:
    """Returns the cases that the words of a command line name: patterns and paths as for `list`, or cases and ad-hoc
    functions as for `show`.

    `options`: inputs of an ad-hoc function, and how to compile. `axes`: NAME=V1,V2 each, see `vary_axes`.
    Raises CaseError, UnknownCaseError, AdhocError, InputError and BenchError.
    """
    single = [word for word in words if is_adhoc_function(word) or "::" in word]
    paths = [Path(word) for word in words if is_test_path(word)]
    patterns = [word for word in words if word not in single and not is_test_path(word)]
    declared = selected_cases(paths, patterns).cases if paths or patterns else []
    if options != _NO_OPTIONS:
        single += [f"{case.file}::{case.id}" for case in declared]
        declared = []
    named = [*declared, *(resolve_case(word, (), options)[0] for word in single)]
    return vary_axes((each.form_that_runs for each in named), _parse_axes(axes))


def _parse_axes(words: Sequence[str]) -> dict[str, list[str]]:
    axes = {}
    for word in words:
        name, equals, values = word.partition("=")
        axes[name] = [value for value in values.split(",") if value]
        if not (name and equals and axes[name]):
            raise BenchError(f"--axis {word}: write an axis and its values, as in --axis dtype=u8,f32")
    return axes


def vary_axes(cases: Iterable[Case], axes: Mapping[str, Sequence[str]]) -> list[Case]:
    """Returns each case with every combination of these values in place of its own. A case without such an axis stays
    as it is; no case comes twice.

    An axis is named as it is declared (`x.dtype`), or by its last part, which may mean several axes (`dtype`).
    Raises BenchError for an axis that no case has, and for a value that does not fit the axis.
    """
    cases = list(cases)
    for name in axes:
        if not any(_positions(case, name) for case in cases):
            known = dict.fromkeys(axis for case in cases for axis in case.axes)
            raise BenchError(f"--axis {name}: no case has this axis; the cases have {', '.join(known) or 'no axes'}")
    varied: dict[str, Case] = {}
    for case in cases:
        names = [name for name in axes if _positions(case, name)]
        for values in itertools.product(*(axes[name] for name in names)):
            changed = case
            for name, value in zip(names, values, strict=True):
                changed = _with_value(changed, name, value)
            varied.setdefault(changed.id, changed)
    return list(varied.values())


def _positions(case: Case, name: str) -> list[int]:
    return [number for number, axis in enumerate(case.axes) if name in (axis, axis.rpartition(".")[2])]


def _with_value(case: Case, name: str, text: str) -> Case:
    labels, arguments = list(case.labels), dict(case.arguments)
    choices = {each: dict(properties) for each, properties in case.choices.items()}
    for position in _positions(case, name):
        owner, _, axis = case.axes[position].rpartition(".")
        if axis in COMPILE_KEYWORDS:
            raise BenchError(f"--axis {name}: this axis says how to compile; name cases that have the value you want")
        if not owner and axis in arguments:
            value = arguments[axis] = _parse_value(name, text, arguments[axis])
        else:
            inputs = [owner] if owner in choices else _open_inputs(case, owner, axis)
            value = _parse_value(name, text, choices[inputs[0]][axis])
            for each in inputs:
                choices[each][axis] = value
        labels[position] = label_of(axis, value)
    return dataclasses.replace(case, labels=tuple(labels), arguments=arguments, choices=choices)


def _open_inputs(case: Case, group: str, axis: str) -> list[str]:
    """The inputs and modules that take this property from a group, or from the case's own axis (group "")."""
    inside = (f"{group}.", f"{group}[") if group else ("",)
    return [path for path, each in case.recipes.items() if path.startswith(inside) and axis in each.open_properties]


def _parse_value(name: str, text: str, like: Any) -> Any:
    """Returns the value of an axis; it has the type of `like`, another value of the axis."""
    known = _NAMED_VALUES.get(name.rpartition(".")[2])
    if known and text not in known:
        raise BenchError(f"--axis {name}: {text!r} is not one of {', '.join(known)}")
    try:
        if isinstance(like, bool):
            return {"True": True, "False": False}[text]
        if isinstance(like, (tuple, list)):
            return tuple(int(size) for size in text.split("x"))
        return type(like)(text) if isinstance(like, (int, float)) else text
    except (KeyError, ValueError) as error:
        raise BenchError(f"--axis {name}: {text!r} is not a value like {like!r}") from error


def select_target(machine: Machine, devices: str | None, names: str | None, threads: int) -> Target:
    """Returns the one target to measure on. On the CPU: the widest instruction set of this machine, with `threads`.

    Raises TargetError for a target that this machine does not have, and for several.
    """
    known = list(machine.targets().values())
    here = [target for target in known if machine.is_native(target)]
    chosen = select_targets(known, devices or (None if names else "cpu"), names, with_variants=True)
    native = [target for target in chosen if target in here]
    if not native:
        raise TargetError(f"this machine does not run {_names(chosen)}; it runs {_names(here) or 'no target'}")
    if len({target.device for target in native}) > 1 or (names and len(chosen) > 1):
        raise TargetError(f"bench measures on one target at a time, not on {_names(chosen)}")
    if native[0].device in vendor_devices():
        raise TargetError(f"bench measures on {', '.join(DEVICES)}, and not on a vendor's device: {_names(native)}")
    if native[0].device != "cpu":
        return native[0]
    widest = max(native, key=lambda target: machine.isas.index(target.isa))
    if not 1 <= threads <= machine.cores:
        raise TargetError(f"--threads {threads}: this process may use 1 to {machine.cores} threads")
    return dataclasses.replace(widest, threads=threads)


def _names(targets: Iterable[Target]) -> str:
    return ", ".join(target.name for target in targets)
