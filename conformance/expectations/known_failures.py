"""Known failures: data in known_failures/*.toml. An entry excuses one error, and is an error itself once it is idle.

[[failure]]
case = "sum/sum-64x1000-f16"          # an id, or a list of ids; also what only --thorough combines
check = "numerics"                    # one of CHECKS
target = ["cpu_avx2", "cpu_avx512"]   # a target, or a list
mode = "native"                       # may be left out: both; "deviceless" on a real gpu excuses and asks nothing
via = "export"                        # of runs with that option; a way, or a list
backend = ["inductor", "aot_eager"]   # likewise; with neither key, of runs of Inductor alone
torch = ">=2.11,<2.14"                # a version range
error = "NaN and inf must be where"   # contained in the error's type and message
reason = "accumulates in f16"
issue = "https://github.com/pytorch/pytorch/issues/1"   # or "not reported"
reproduction = '''…'''              # optional: a script of torch alone (bugs.py); one for each reason
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from conformance.errors import ConformanceError
from conformance.settings import VIA

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: "compile": that compiling raises, before any check has something to look at. "deviceless": of --verify-deviceless.
CHECKS = ("compile", "numerics", "requirements", "code", "binary", "deviceless")
#: The torch on which a known failure that passes is an error: there, nothing changes but through us.
BASELINE = "2.13"

#: What "mode" may be.
_MODES = ("native", "deviceless")

#: Keys that say for runs with which options an entry is; with none of them, it is for Inductor.
_WAYS = ("via", "backend")

_KEYS = ("case", "check", "target", "torch", "error", "reason", "issue")
_OPTIONAL = ("reproduction", "mode", *_WAYS)

#: (case, check, target): one check of one item.
Item = tuple[str, str, str]
#: No item says how it ran.
EITHER: Mapping[tuple[str, str], str] = {}


class KnownFailureError(ConformanceError, ValueError):
    """A malformed or impossible entry: the message names the file, the entry and what would be right."""


@dataclass(frozen=True)
class Failure:
    """One entry. `where`: file and number, for messages. `ways`: see Settings.backend_option, "" for Inductor."""

    where: str
    cases: tuple[str, ...]
    check: str
    targets: tuple[str, ...]
    torch: SpecifierSet
    error: str
    reason: str
    issue: str
    reproduction: str = ""
    mode: str = ""
    ways: tuple[str, ...] = ("",)

    def items(self) -> Iterator[Item]:
        for case in self.cases:
            for target in self.targets:
                yield case, self.check, target

    def applies_to(self, torch_version: str, mode: str = "", way: str | None = None) -> bool:
        """`mode`, `way`: the item's; left out, the entry's own do not matter."""
        if (mode and self.mode not in ("", mode)) or (way is not None and way not in self.ways):
            return False
        return self.torch.contains(_release(torch_version), prereleases=True)


@dataclass(frozen=True)
class Idle:
    """An entry, or one item of it, that excused nothing; "error" or "notice", and what to do."""

    severity: Literal["error", "notice"]
    message: str


@dataclass
class KnownFailures:
    """All entries, and what they excused in this process. `used` is plain: workers send theirs, one process merges.

    `way`: how this run runs cases, as Settings.backend_option says it: entries for others are none of its.
    """

    failures: list[Failure] = field(default_factory=list)
    used: set[Item] = field(default_factory=set)
    way: str = ""

    def expected(self, case_id: str, check: str, target: str, torch_version: str, mode: str = "") -> Failure | None:
        """The entry for this check of this item on this torch, whatever the error."""
        for failure in self.failures:
            if (case_id, check, target) in failure.items() and failure.applies_to(torch_version, mode, self.way):
                return failure
        return None

    def match(
        self, case_id: str, check: str, target: str, torch_version: str, message: str, mode: str = ""
    ) -> Failure | None:
        """The entry that excuses this error (give type and message), and records its use; None if none does.

        An error other than the entry's is not excused: `expected` then says which one was.
        """
        for failure in self.failures:
            if (case_id, check, target) not in failure.items() or failure.error not in message:
                continue
            if failure.applies_to(torch_version, mode, self.way):
                self.used.add((case_id, check, target))
                return failure
        return None

    def merge(self, used: Iterable[Iterable[str]]) -> None:
        """Adds what a worker used; lists, as they come out of JSON, will do."""
        self.used |= {tuple(item) for item in used}

    def passed(self, case_id: str, check: str, target: str, torch_version: str, mode: str = "") -> Idle | None:
        """What to say of a check that passed: nothing, unless an entry says that it fails."""
        failure = self.expected(case_id, check, target, torch_version, mode)
        if failure is None:
            return None
        return Idle(
            _severity(torch_version),
            f"{failure.where}: {case_id} on {target} passes {check} on torch {torch_version}, "
            f"and is said to fail ({failure.reason}); end its torch range below that version, or take it out",
        )

    def unused(
        self, ran: Iterable[Iterable[str]], torch_version: str, modes: Mapping[tuple[str, str], str] = EITHER
    ) -> list[Idle]:
        """Entries that excused nothing although at least one of their items ran. `ran`: all items of all workers.

        `modes`: (case, target) → how it ran, for entries of one mode; one that is not in it may have run either way.
        """
        ran = {tuple(item) for item in ran}
        idle = []
        for failure in self.failures:
            items = [
                item
                for item in failure.items()
                if item in ran and failure.applies_to(torch_version, modes.get((item[0], item[2]), ""), self.way)
            ]
            if items and not self.used.intersection(items):
                idle.append(
                    Idle(
                        _severity(torch_version),
                        f"{failure.where}: matched nothing, though {len(items)} of its items ran "
                        f"on torch {torch_version}, {items[0][0]} on {items[0][2]} for one; correct it or take it out",
                    )
                )
        return idle

    def validate(self, cases: Iterable[str], targets: Iterable[str]) -> None:
        """Refuses entries for cases or targets that do not exist; meant for full collections.

        Raises KnownFailureError for the first. `cases`: all ids; `targets`: all names.
        """
        known = {"case": set(cases), "target": set(targets)}
        for failure in self.failures:
            for key, names in {"case": failure.cases, "target": failure.targets}.items():
                for name in names:
                    if name not in known[key]:
                        near = _nearest(name, known[key])
                        raise KnownFailureError(f"{failure.where}: there is no {key} {name!r}{near}")


def load(folder: Path, way: str = "") -> KnownFailures:
    """All entries of the folder's *.toml files, by name of the file. `way`: see KnownFailures.

    Raises KnownFailureError for a file that is malformed or cannot be read.
    """
    failures: list[Failure] = []
    seen: dict[Item, list[Failure]] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise KnownFailureError(f"{file.name} is no TOML: {error}") from error
        except OSError as error:
            raise KnownFailureError(f"{file} cannot be read: {error.strerror}") from error
        entries = data.pop("failure", [])
        if data or not isinstance(entries, list):
            key = min(data) if data else "failure"
            raise KnownFailureError(f"{file.name}: {key!r} is not expected; the file is a list of [[failure]] tables")
        for number, entry in enumerate(entries, 1):
            failure = _entry(f"{file.name}, failure {number}", entry)
            for item in failure.items():
                for other in seen.setdefault(item, []):
                    if _when(other) == _when(failure) and set(other.ways) & set(failure.ways):
                        raise KnownFailureError(f"{failure.where}: says of {' '.join(item)} what {other.where} says")
                seen[item].append(failure)
            failures.append(failure)
    return KnownFailures(failures, way=way)


def _entry(where: str, entry: Any) -> Failure:
    if not isinstance(entry, dict):
        raise KnownFailureError(f"{where}: is {entry!r}; write [[failure]], a table with {', '.join(_KEYS)}")
    for key in entry:
        if key not in (*_KEYS, *_OPTIONAL):
            known = ", ".join((*_KEYS, *_OPTIONAL))
            raise KnownFailureError(f"{where}: unknown key {key!r}; the keys are {known}")
    for key in _KEYS:
        if key not in entry:
            raise KnownFailureError(f"{where}: {key!r} is missing; the keys are {', '.join(_KEYS)}")
    values = {key: _text(where, key, entry[key]) for key in ("check", "torch", "error", "reason", "issue")}
    if values["check"] not in CHECKS:
        raise KnownFailureError(f"{where}: unknown check {values['check']!r}; known are {', '.join(CHECKS)}")
    mode = entry.get("mode", "")
    if "mode" in entry and mode not in _MODES:
        raise KnownFailureError(f"{where}: mode is {mode!r}; it is {' or '.join(_MODES)}, or left out for both")
    issue = values["issue"]
    if issue != "not reported" and not issue.startswith(("https://", "http://")):
        raise KnownFailureError(f"{where}: issue is {issue!r}; give its URL, or 'not reported'")
    try:
        versions = SpecifierSet(values["torch"])
    except InvalidSpecifier as error:
        raise KnownFailureError(
            f"{where}: torch is {values['torch']!r}, which is no version range; write one as in '>=2.11,<2.14'"
        ) from error
    cases, targets = (_names(where, key, entry[key]) for key in ("case", "target"))
    reproduction = _script(where, entry.get("reproduction", ""))
    said = (values["error"], values["reason"], issue, reproduction, mode, _ways(where, entry))
    return Failure(where, cases, values["check"], targets, versions, *said)


def _when(failure: Failure) -> tuple[Any, ...]:
    return failure.torch, failure.error, failure.mode


def _ways(where: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """As Settings.backend_option says them: "--via export", "--backend aot_eager", or "" for Inductor."""
    ways = []
    for key in _WAYS:
        names = _names(where, key, entry[key]) if key in entry else ()
        for name in names:
            if key == "via" and name not in VIA[1:]:
                raise KnownFailureError(f"{where}: via is {name!r}; it is one of {', '.join(VIA[1:])}, or left out")
            ways.append("" if name == "inductor" else f"--{key} {name}")
    return tuple(ways) or ("",)


def _script(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise KnownFailureError(f"{where}: reproduction is {value!r}; it is a script, as text")
    try:
        compile(value, where, "exec")
    except SyntaxError as error:
        raise KnownFailureError(f"{where}: reproduction is no Python: line {error.lineno}: {error.msg}") from error
    return value


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise KnownFailureError(f"{where}: {key} is {value!r}; it is a text that is not empty")
    return value


def _names(where: str, key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise KnownFailureError(f"{where}: {key} is {value!r}; it is a name or a list of names")
    for name in names:
        _text(where, key, name)
        if "*" in name:
            raise KnownFailureError(f"{where}: {key} {name!r} has a '*'; names are exact, so list those that fail")
    if len(set(names)) < len(names):
        raise KnownFailureError(f"{where}: {key} names {max(names, key=names.count)!r} twice")
    return tuple(names)


def _release(torch_version: str) -> str:
    """2.15.0 for 2.15.0.dev20261101+cpu: a nightly counts as the release that it becomes."""
    return Version(torch_version).base_version


def _severity(torch_version: str) -> Literal["error", "notice"]:
    return "notice" if Version(_release(torch_version)).release[:2] != Version(BASELINE).release else "error"


def _nearest(name: str, known: set[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
