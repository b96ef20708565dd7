"""What is measured where: the cases of a selection, with other values of their axes on request, and the device."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.bench import BenchError
from conformance.cases.adhoc import AdhocOptions, is_adhoc_function, resolve_case
from conformance.cases.case import COMPILE_KEYWORDS, Case, label_of
from conformance.cases.inputs import DTYPES, LAYOUTS, Input
from conformance.cases.lookup import OPS, cases_below, is_test_path, matching_cases
from conformance.devices.machine import Machine
from conformance.devices.targets import Target, TargetError, select_targets

NOTHING = AdhocOptions()

_KNOWN = {"dtype": tuple(DTYPES), "layout": LAYOUTS}


def cases_of(words: Sequence[str], axes: Sequence[str] = (), asked: AdhocOptions = NOTHING) -> list[Case]:
    """The cases that the words of a command line name: as for `list`, or one as for `show`, also a function.

    `asked`: inputs of one's own and how to compile. `axes`: see `varied`.
    Raises CaseError, UnknownCaseError, AdhocError, InputError and BenchError.
    """
    single = [word for word in words if is_adhoc_function(word) or "::" in word]
    paths = [Path(word) for word in words if is_test_path(word)]
    patterns = [word for word in words if word not in single and not is_test_path(word)]
    found = matching_cases(cases_below(paths or [OPS]), patterns) if paths or patterns else []
    if asked != NOTHING:
        single += [f"{case.file}::{case.id}" for case in found]
        found = []
    return varied([*found, *(resolve_case(word, (), asked)[0] for word in single)], _axes(axes))


def _axes(words: Sequence[str]) -> dict[str, list[str]]:
    found = {}
    for word in words:
        name, equals, values = word.partition("=")
        found[name] = [value for value in values.split(",") if value]
        if not (name and equals and found[name]):
            raise BenchError(f"--axis {word}: write an axis and its values, as in --axis dtype=u8,f32")
    return found


def varied(cases: Iterable[Case], axes: Mapping[str, Sequence[str]]) -> list[Case]:
    """Each case with every combination of these values for its own, once each; as it is where it has no such axis.

    An axis is named as it is declared (`x.dtype`), or by its last part, which may mean several (`dtype`).
    Raises BenchError for an axis that no case has, and for a value that is none of it.
    """
    cases = list(cases)
    for name in axes:
        if not any(_positions(case, name) for case in cases):
            known = dict.fromkeys(axis for case in cases for axis in case.axes)
            raise BenchError(f"--axis {name}: none of the cases has it; they have {', '.join(known) or 'no axis'}")
    found: dict[str, Case] = {}
    for case in cases:
        own = [name for name in axes if _positions(case, name)]
        for values in itertools.product(*(axes[name] for name in own)):
            changed = case
            for name, value in zip(own, values, strict=True):
                changed = _with(changed, name, value)
            found.setdefault(changed.id, changed)
    return list(found.values())


def _positions(case: Case, name: str) -> list[int]:
    return [number for number, axis in enumerate(case.axes) if name in (axis, axis.rpartition(".")[2])]


def _with(case: Case, name: str, text: str) -> Case:
    labels, arguments = list(case.labels), dict(case.arguments)
    choices = {each: dict(properties) for each, properties in case.choices.items()}
    for position in _positions(case, name):
        owner, _, axis = case.axes[position].rpartition(".")
        if axis in COMPILE_KEYWORDS:
            raise BenchError(f"--axis {name}: that says how to compile; choose the cases that say so instead")
        if not owner and axis in arguments:
            value = arguments[axis] = _parsed(name, text, arguments[axis])
        else:
            inputs = [owner] if owner else [each for each, made in arguments.items() if _open(made, axis)]
            value = _parsed(name, text, choices[inputs[0]][axis])
            for each in inputs:
                choices[each][axis] = value
        labels[position] = label_of(axis, value)
    return dataclasses.replace(case, labels=tuple(labels), arguments=arguments, choices=choices)


def _open(made: Any, axis: str) -> bool:
    """Whether an input takes this property from the case's own axis."""
    return isinstance(made, Input) and axis in made.properties and made.properties[axis] is None


def _parsed(name: str, text: str, like: Any) -> Any:
    """The value of an axis whose other values are like `like`."""
    known = _KNOWN.get(name.rpartition(".")[2])
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


def target_of(machine: Machine, devices: str | None, names: str | None, threads: int) -> Target:
    """The one target to measure on; on cpu that of the widest instruction set which is here, for so many threads.

    Raises TargetError for one that is not here, and for several.
    """
    known = list(machine.targets().values())
    here = [target for target in known if machine.is_native(target)]
    chosen = select_targets(known, devices or (None if names else "cpu"), names)
    native = [target for target in chosen if target in here]
    if not native:
        what = ", ".join(target.name for target in chosen)
        raise TargetError(
            f"bench measures on devices that are here, and {what} {'is' if len(chosen) == 1 else 'are'} not: "
            f"here {'is' if len(here) == 1 else 'are'} {', '.join(target.name for target in here) or 'none'}"
        )
    if len({target.device for target in native}) > 1 or (names and len(chosen) > 1):
        raise TargetError(f"bench measures on one target at a time, not on {', '.join(t.name for t in chosen)}")
    if native[0].device != "cpu":
        return native[0]
    widest = max(native, key=lambda target: machine.isas.index(target.isa))
    if not 1 <= threads <= machine.cores:
        raise TargetError(f"--threads {threads}: this process may use 1 to {machine.cores}")
    return dataclasses.replace(widest, threads=threads)
