"""Ini options: what a project's pytest.ini, pyproject.toml, tox.ini or setup.cfg sets for all of its runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from conformance import settings
from conformance.settings import SettingsError


class _IniOption(NamedTuple):
    """`type`: that of pytest. `help`: for `pytest --help`. `right`: what a right value is, for messages."""

    type: Any
    help: str
    right: str


INI_OPTIONS = {
    "conformance_targets": _IniOption(
        "args",
        "test these targets, if --target names no others: cpu_avx2 cuda_sm90",
        "a list of targets, such as cpu_avx2 cuda_sm90",
    ),
    "conformance_checks": _IniOption(
        "args",
        "run these checks, if --checks names no others: numerics requirements code binary",
        f"a list of some of these: {' '.join((*settings.CHECKS, *settings.OPTIONAL_CHECKS))}",
    ),
    "conformance_drift": _IniOption(
        "string",
        "code that differs from the nearest torch's, where this torch has no snapshots: report (the default) or fail",
        "report or fail",
    ),
    "conformance_strict_torch": _IniOption(
        "string",
        "a known failure that excuses nothing is an error on this torch release, and a notice on others; without this "
        "option, it is an error on each release that the known failure names",
        "a torch release, such as 2.13; in TOML a text: '2.13'",
    ),
    "conformance_factor": _IniOption(
        "float",
        "how many times eager's error compiled's may be, in cases that name no factor, instead of the policy's factors",
        "a number of 0 or more, such as 4",
    ),
    "conformance_item_timeout": _IniOption(
        "float",
        "seconds for one item, if --item-timeout gives no others; 0 for no limit",
        "a number of seconds, or 0 for no limit",
    ),
    settings.INI_TARGET_TABLES: _IniOption(
        "paths",
        "add the targets of these tables, as --targets does; relative to the ini file",
        "a list of files",
    ),
    settings.INI_STORE: _IniOption(
        "paths",
        "lay this folder over the stored code, if --store names no other; relative to the ini file",
        "a folder",
    ),
    settings.INI_KNOWN_FAILURES: _IniOption(
        "paths",
        "also take the known failures of these folders, as --known-failures does; relative to the ini file",
        "a list of folders",
    ),
}
#: Former option → what to write now.
_FORMER = {"conformance_baseline_torch": "conformance_strict_torch"}


@dataclass(frozen=True)
class ProjectSettings:
    """The ini options of a project. What it does not set is None, or "" for a text.

    `targets`: names with commas, as --target takes them. `checks`: as in Settings. `drift`: "report", "fail" or "".
    `strict_torch`: "2.13" or "". `factor`: see tolerance_policy.py. `item_timeout`: seconds.
    `texts`: a line `name = value` for each option that is set.
    """

    targets: str | None = None
    checks: tuple[str, ...] | None = None
    drift: str = ""
    strict_torch: str = ""
    factor: float | None = None
    item_timeout: float | None = None
    texts: Sequence[str] = ()


def add_ini_options(parser: pytest.Parser) -> None:
    """Declares the ini options."""
    for name, option in INI_OPTIONS.items():
        parser.addini(name, option.help, type=option.type, default=None)
    for name, new in _FORMER.items():
        parser.addini(name, f"is {new} now", default=None)


def read_project_settings(config: pytest.Config) -> ProjectSettings:
    """The ini options, checked. Raises SettingsError, whose message names the file."""
    file = os.path.relpath(config.inipath) if config.inipath else "-o"

    def value(name: str, is_right: Callable[[Any], bool]) -> Any:
        wrong = SettingsError(f"{file}: {name} is not {INI_OPTIONS[name].right}")
        try:
            found = config.getini(name)
        except (TypeError, ValueError, pytest.UsageError):  # releases of pytest differ in what they raise
            raise wrong from None
        if found is not None and not is_right(found):
            raise SettingsError(f"{wrong}: {found!r}")
        return found

    for name, new in _FORMER.items():
        if config.getini(name) is not None:
            raise SettingsError(f"{file}: {name} is {new} now")
    targets = value("conformance_targets", lambda names: bool(_names(names)))
    known = (*settings.CHECKS, *settings.OPTIONAL_CHECKS)
    checks = value("conformance_checks", lambda names: bool(_names(names)) and set(_names(names)) <= set(known))
    return ProjectSettings(
        targets=",".join(_names(targets)) if targets else None,
        checks=tuple(name for name in known if name in _names(checks)) if checks else None,
        drift=value("conformance_drift", lambda text: text in ("report", "fail")) or "",
        strict_torch=value("conformance_strict_torch", lambda text: bool(re.fullmatch(r"\d+\.\d+", text))) or "",
        factor=value("conformance_factor", lambda number: 0 <= number < float("inf")),
        item_timeout=value("conformance_item_timeout", lambda number: number >= 0),
        texts=[f"{name} = {_text(set_)}" for name in INI_OPTIONS if (set_ := config.getini(name)) is not None],
    )


def _names(texts: Sequence[str]) -> list[str]:
    """The names in a list whose items are separated by spaces or commas."""
    return [name for text in texts for name in re.split(r"[,\s]+", text) if name]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else " ".join(_names(list(map(str, value))))
