"""Writes known failures that excuse what failed in a run, and nothing else: the start of a layer for --known-failures.

Each entry is tried before it is written: it must excuse the failures that it was made from. People explain it later:
its reason is REASON.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

from conformance import atomic_files
from conformance.errors import ConformanceError
from conformance.expectations.known_failure_entry import EVERY_ERROR, KnownFailureError, parse_entry
from conformance.expectations.known_failures import KnownFailures, load
from conformance.numerics.problem import OF_THE_DECLARATION, Problem
from conformance.settings import ALL_CHECKS

REASON = "to be explained"
#: Checks whose failures are written. Changed code and binaries are stored instead.
WRITTEN_CHECKS = tuple(each.name for each in ALL_CHECKS if each.written)
_OTHER_CHECKS = {
    "code": "store it with EXPECTTEST_ACCEPT=1 --store DIR",
    "binary": "store it with EXPECTTEST_ACCEPT=1 --store DIR",
}

#: What differs from run to run or from machine to machine: paths, addresses, numbers of processes and files.
_VARYING = re.compile(r"\S*/\S+|\b0x[0-9a-fA-F]+\b|\S*\d{5,}\S*|\b(?=\w*\d)(?=\w*[a-z])\w{12,}\b|\.\.\.+")
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Failed|Warning)\w*:?")
_TYPE = re.compile(r"^([\w.]*(Error|Exception|Failed|Warning)\w*:\s*)+")
#: Lines that say what ran or how to debug it, and not what went wrong.
_COMMAND = re.compile(rf"\s*(Command|Output|File|Traceback)\b|\s*\S*(g\+\+|clang)|{EVERY_ERROR}")
#: A shorter part of a message says too little of the cause.
_SHORTEST = 12
#: Characters of an `error`.
_LONGEST = 300


class WriteError(ConformanceError, OSError):
    """The entries cannot be written. The message says why; no file has changed."""


@dataclass(frozen=True)
class Failure:
    """One failed check of one item. `message`: the error's type and message; "" for what no message says, as a crash.

    `problems`: those of wrong numerics that no entry excuses. `mode`: "native" or "deviceless".
    """

    case: str
    check: str
    target: str
    mode: str
    message: str
    problems: Sequence[Problem] = ()


@dataclass
class Written:
    """`entries`: how many were written for `failures` failures, into `files`. `left_out`: reason → failures."""

    entries: int = 0
    failures: int = 0
    files: list[Path] = field(default_factory=list)
    left_out: dict[str, list[Failure]] = field(default_factory=dict)


def write_known_failures(folder: Path, failures: Iterable[Failure], torch_version: str, backend_option: str) -> Written:
    """Adds entries for the failures to `<operator>.toml` files of a folder. What the files have stays as it is.

    `backend_option`: see Settings.backend_option, or the only one of Settings.inductor_config_options. Raises
    WriteError and KnownFailureError.
    """
    written = Written()
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for operator, of_operator in _by_operator(failures).items():
        tables[operator], count = _tables(of_operator, torch_version, backend_option, written.left_out)
        written.failures += count
    contents = {}
    for operator, entries in tables.items():
        if entries:
            file = folder / f"{operator}.toml"
            contents[file] = _content(file, entries, torch_version)
            written.entries += len(entries)
    try:
        for file, content in contents.items():
            atomic_files.write_atomically(file, content)
    except OSError as error:
        raise WriteError(f"{error.filename or folder}: known failures cannot be written: {error.strerror}") from error
    if contents:
        load(folder)  # what was written can be read
    written.files = list(contents)
    return written


def _by_operator(failures: Iterable[Failure]) -> dict[str, list[Failure]]:
    found: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        found[failure.case.partition("/")[0]].append(failure)
    return found


def _content(file: Path, entries: Sequence[Mapping[str, Any]], torch_version: str) -> str:
    import tomli_w

    try:
        before = file.read_text(encoding="utf-8").rstrip() + "\n\n" if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise WriteError(f"{file} cannot be read, so nothing was written: {error}") from error
    comment = f"# Written by --write-known-failures from a run with torch {torch_version}.\n"
    return (
        before + comment + "\n".join(tomli_w.dumps({"failure": [entry]}, multiline_strings=True) for entry in entries)
    )


def _tables(
    failures: Sequence[Failure], torch_version: str, backend_option: str, left_out: dict[str, list[Failure]]
) -> tuple[list[dict[str, Any]], int]:
    """The entries for the failures of one operator, and how many failures they excuse. Adds the others to `left_out`.

    Failures with one cause share an entry if they are exactly those of its cases on its targets.
    """
    targets: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    matchers: dict[tuple[Any, ...], dict[str, Any]] = {}
    count = 0
    for failure in failures:
        matcher, reason = _matcher(failure)
        entry = {"check": failure.check, "case": failure.case, "target": failure.target}
        entry |= {"mode": failure.mode} if failure.check == "numerics" else {}
        entry |= _versions(torch_version) | _backend(backend_option)
        entry |= {**matcher, "reason": REASON, "issue": "not reported"}
        if not reason and not _excuses(entry, failure, torch_version, backend_option):
            reason = "its message says too little of the cause: write an entry by hand"
        if reason:
            left_out.setdefault(reason, []).append(failure)
            continue
        count += 1
        kind = repr({key: value for key, value in entry.items() if key not in ("case", "target")})
        matchers[kind,] = entry
        targets[kind, failure.case].append(failure.target)
    cases: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (kind, case), names in targets.items():
        cases[kind, tuple(names)].append(case)
    return [
        {"case": _one_or_list(each), "check": matchers[kind,]["check"], "target": _one_or_list(names)}
        | {key: value for key, value in matchers[kind,].items() if key not in ("case", "check", "target")}
        for (kind, names), each in cases.items()
    ], count


def _one_or_list(names: Sequence[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _versions(torch_version: str) -> dict[str, str]:
    """The range of this release."""
    major, minor = Version(torch_version).release[:2]
    return {"torch": f">={major}.{minor},<{major}.{minor + 1}"}


def _backend(backend_option: str) -> dict[str, str]:
    """The key `via`, `backend` or `inductor-config`: for "--via export", and so on."""
    if not backend_option:
        return {}
    option, _, name = backend_option.removeprefix("--").partition(" ")
    return {option: name}


def _matcher(failure: Failure) -> tuple[dict[str, Any], str]:
    """The keys that name the error or the problems; else why there are none."""
    if failure.check not in WRITTEN_CHECKS:
        return {}, _OTHER_CHECKS.get(failure.check, "no known failure can excuse this check")
    if not failure.message:
        return {}, "it ended without an error of its own, such as by a crash: see its record"
    if failure.problems:
        if any(problem.rule in OF_THE_DECLARATION for problem in failure.problems):
            return {}, "the declaration of the case is wrong"
        return {"problems": _problem_tables(failure.problems)}, ""
    return {"error": _requirements(failure.message) or narrow_error(failure.message)}, ""


def _excuses(entry: Mapping[str, Any], failure: Failure, torch_version: str, backend_option: str) -> bool:
    """Whether the entry can be read, and excuses the failure."""
    try:
        parsed = parse_entry("a new entry", entry)
    except KnownFailureError:
        return False
    known = KnownFailures([parsed], backend_option=backend_option)
    item = (failure.case, failure.check, failure.target, torch_version)
    return known.match(*item, failure.message, failure.mode, failure.problems) is not None


def _requirements(message: str) -> str:
    """The requirements that are not met, of the message that requirements.check raises; "" for another message."""
    lines = message.split("\n")
    unmet = [line for line in lines[1:] if re.match(r"  \S.*: wanted ", line)]
    return "\n".join(unmet).strip() if lines[0].endswith("requirements not met") else ""


def narrow_error(message: str) -> str:
    """The part of an error's type and message that says most of its cause, and is the same in every run; else "".

    It is a part of one line: of the first one, else of the first that has such a part, before others those of a
    compiler that say "error:".
    """
    first, *rest = message.splitlines() or [""]
    rest = [line for line in rest if not _COMMAND.match(line)]
    for line in (first, *sorted(rest, key=lambda line: "error:" not in line)):
        parts = [part.strip(" \t:,;.()[]'\"") for part in _VARYING.split(line[:_LONGEST])]
        for part in sorted(parts, key=lambda part: len(_TYPE.sub("", part)), reverse=True):
            if len(part) >= _SHORTEST and part in message and _is_allowed(part):
                return part
    return ""


def _is_allowed(error: str) -> bool:
    """Whether a known failure may have this `error`."""
    if all(map(_EXCEPTION.fullmatch, re.split(r":\s+", error))):
        return False
    entry = {"case": "a", "check": "compile", "target": "a", "torch": ">=2", "reason": "a", "issue": "not reported"}
    try:
        parse_entry("", entry | {"error": error})
    except KnownFailureError:
        return False
    return True


def _problem_tables(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Tables that name exactly these problems; those that differ only in the call share one."""
    calls: dict[str, list[str]] = defaultdict(list)
    tables: dict[str, dict[str, Any]] = {}
    for problem in problems:
        table: dict[str, Any] = {}
        if problem.tensor:
            table["tensor"] = problem.tensor
        table["rule"] = problem.rule
        if problem.wrong_values is not None:
            table["changes"] = _one_or_list(sorted(problem.wrong_values.changes))
            table |= {"off_by": _rounded_up(problem.wrong_values.off_by)} if problem.wrong_values.off_by else {}
            table |= {"share": share} if (share := min(1.0, _rounded_up(problem.wrong_values.share))) < 1 else {}
        if problem.rule == "raises":
            table["error"] = narrow_error(problem.text) or problem.text
        key = repr(table)
        tables[key] = table
        if problem.call not in calls[key]:
            calls[key].append(problem.call)
    return [{"call": _one_or_list(calls[key]), **table} for key, table in tables.items()]


def _rounded_up(value: float) -> float:
    """The smallest number with two digits that is not below the value: processors differ in the last digits."""
    if value == 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    rounded = float(f"{math.ceil(value / unit) * unit:.3g}")
    return rounded if rounded >= value else float(f"{(math.ceil(value / unit) + 1) * unit:.3g}")
