"""--quick: one case of each function, on one target of each device type; and how to go on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.devices.machine import Machine
from conformance.devices.targets import Target, families
from conformance.settings import long_name, option_name
from conformance.storage.runs import Run

_NAME = "quick"
#: tox names its environment in this variable.
_TOX = "TOX_ENV_NAME"


def one_target_a_device(selected: Sequence[Target], machine: Machine) -> list[Target]:
    """One of the selected targets for each device type and platform.

    The native one; on CPU, the one with the widest vectors. Without a native one: the last row of the table whose
    values were read on a real device, else the last row. A variant only if it is native or nothing else is selected.
    """
    result = []
    for family in families():
        rows = [target for target in selected if target.family == family]
        native = [target for target in rows if machine.is_native(target)]
        if family == "cpu":
            native.sort(key=lambda target: machine.isas.index(target.isa))
        rows = [target for target in rows if not target.variant_of] or rows
        confirmed = [target for target in rows if target.read_on_device]
        result += (native or confirmed or rows)[-1:]
    return result


def first_case(cases: Sequence[Case], target: Target) -> Case:
    """The first declared case that is for the target: the base, with the first value of each axis.

    Authors write the usual value of an axis first. If no case is for the target, the first case says so.
    """
    return next((case for case in cases if not exclusion(case, target)), cases[0])


def first_cases(cases: Sequence[Case], targets: Sequence[Target]) -> list[Case]:
    """The first case of each target, each case once."""
    return list({case.id: case for case in (first_case(cases, target) for target in targets)}.values())


def next_step(run: Run, arguments: Sequence[str], root: Path, *, in_part: bool) -> list[str]:
    """The last lines of a quick run: that it compared a part, and the command that runs all.

    `arguments`: pytest's. `root`: the folder of the project; if it has `ci/tox`, a run in tox goes on in tox.
    `in_part`: another option selects a part of the items, so their number is unknown here.
    """
    in_part = in_part or any("::" in each for each in arguments)
    selected = sum(map(bool, run.selected().values()))
    rest = [each for each in arguments if each not in (f"--{_NAME}", long_name(_NAME))]
    environment = os.environ.get(_TOX, "") if (root / "ci/tox").exists() else ""
    if environment:
        rest = rest[2:] if rest[:1] == ["-n"] else rest  # tox.ini gives it
        command = shlex.join(["ci/tox", "-e", environment, *(["--", *rest] if rest else [])])
    else:
        workers = [] if any(each.startswith(("-n", "--numprocesses")) for each in rest) else ["-n", "auto"]
        command = shlex.join(["pytest", *workers, *rest])
    total = run.items_without_quick()
    items = f"all {total:,} items" if total and not in_part else "all items"
    count = f"{selected:,} item{'s' * (selected != 1)}"
    return [f"{option_name(_NAME)} compared one case of each function, {count}; {items}: {command}"]
