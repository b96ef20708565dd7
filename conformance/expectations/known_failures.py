"""Known failures: data in known_failures/*.toml. An entry excuses one error, or the problems that it names.

An entry that excuses nothing is stale. So is a problem of an entry that occurs in none of its items.

[[failure]]
case = "sum/sum-64x1000-f16"          # an id, or a list of ids; also what only --thorough combines
check = "numerics"                    # one of CHECKS
target = ["cpu_avx2", "cpu_avx512"]   # a target, or a list
mode = "native"                       # optional: "native" or "deviceless"; without it, both
via = "export"                        # optional: for runs with --via export; a name, or a list
backend = ["inductor", "aot_eager"]   # optional, likewise; without `via` and `backend`: for runs of Inductor only
torch = ">=2.11,<2.14"                # a version range
run = false                           # optional: the check does not run, because it would end the process
sometimes = "which element is NaN"    # optional: what decides whether it occurs; then it is never stale
error = "KeyError: 'buf"              # a part of the error's type and message; or, for wrong numerics:
problems = [{ call = "nan", tensor = "output", rule = "values", changes = "NaN → 0" }]   # see excuses.py
reason = "accumulates in f16"
issue = "https://github.com/pytorch/pytorch/issues/1"   # or "not reported"
reproduction = '''…'''              # optional: a script that needs only torch (known_bugs.py); one for each reason

[failure.triage]                      # optional: one for each reason, see triage.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from conformance.devices.targets import excused_like
from conformance.documentation import reference
from conformance.errors import ConformanceError
from conformance.expectations import excuses, triage
from conformance.numerics.problem import Excuse, Problem, unexcused
from conformance.settings import VIA

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: "compile": compiling raises, and no other check runs. "deviceless": the check of --verify-deviceless.
CHECKS = ("compile", "numerics", "requirements", "code", "binary", "deviceless")
#: On this torch release, an entry of the package that excuses nothing is an error; on others, a notice. This release
#: cannot change, so the entry is wrong.
BASELINE = "2.13"

_MODES = ("native", "deviceless")
#: An error that is the type of an exception alone says nothing of the cause. Nor do these parts of messages.
_EXCEPTION_ALONE = re.compile(r"[\w.]*(Error|Exception|Failed|Warning)\w*:?")
_EVERY_FAILURE = ("disagrees with eager", "compiled disagrees", "strides are", "C++ compile error")

#: Options of the run that an entry is for. Without these keys, it is for Inductor.
_RUN_OPTIONS = ("via", "backend")

_KEYS_PAGE = reference("public-names", "file-formats")
_KEYS = ("case", "check", "target", "torch", "reason", "issue")
_OPTIONAL = ("error", "problems", "reproduction", "triage", "mode", "run", "sometimes", *_RUN_OPTIONS)

#: (case, check, target): one check of one item.
ItemCheck = tuple[str, str, str]
#: For `unused_entries`: how each item ran is not known.
UNKNOWN_MODES: Mapping[tuple[str, str], str] = {}


class KnownFailureError(ConformanceError, ValueError):
    """A malformed entry, or one for a case or target that does not exist. The message names the file and the entry."""


@dataclass(frozen=True)
class KnownFailure:
    """One entry. `where`: file and number, for messages. `backend_options`: see Settings.backend_option.

    `layer`: the folder of the entry, if it is laid over the one beside the cases; else "".
    It has either `error` or `excuses`: the error that it excuses, or the problems of wrong numerics.
    `run`: whether the check runs. If it does not, nobody notices that its failure is gone. Nor does anybody with
    `sometimes`: what decides whether the failure occurs.
    """

    where: str
    cases: tuple[str, ...]
    check: str
    targets: tuple[str, ...]
    torch: SpecifierSet
    error: str
    reason: str
    issue: str
    excuses: tuple[Excuse, ...] = ()
    reproduction: str = ""
    mode: str = ""
    backend_options: tuple[str, ...] = ("",)
    run: bool = True
    sometimes: str = ""
    triage: triage.Triage | None = None
    layer: str = ""

    def items(self) -> Iterator[ItemCheck]:
        for case in self.cases:
            for target in self.targets:
                yield case, self.check, target

    def applies_to(self, torch_version: str, mode: str = "", backend_option: str | None = None) -> bool:
        """Whether the entry is for this torch, mode and backend. Without the last two, any mode or backend will do."""
        if mode and self.mode not in ("", mode):
            return False
        if backend_option is not None and backend_option not in self.backend_options:
            return False
        return self.torch.contains(_release(torch_version), prereleases=True)


@dataclass(frozen=True)
class RanNumerics:
    """The numerics of an item that ran. `mode`: "native" or "deviceless". `problems`: those that entries excused."""

    mode: str
    problems: Sequence[Problem] = ()


@dataclass(frozen=True)
class EntryProblem:
    """An entry that excused nothing. `message`: which one, and what to do."""

    severity: Literal["error", "notice"]
    message: str


@dataclass
class KnownFailures:
    """All entries. `used`: the checks that they excused. `backend_option`: the run's, see Settings.backend_option.

    `baseline`: the torch release on which an entry that excuses nothing is an error, such as BASELINE; on others, it is
    a notice. "": an error on each release that the entry is for. `overlay_baseline`: the same for entries of overlays.
    """

    failures: list[KnownFailure] = field(default_factory=list)
    used: set[ItemCheck] = field(default_factory=set)
    backend_option: str = ""
    baseline: str = BASELINE
    overlay_baseline: str = ""

    def entry_for(
        self, case_id: str, check: str, target: str, torch_version: str, mode: str = ""
    ) -> KnownFailure | None:
        """The entry for this check of this item on this torch, whatever its error is."""
        return next(iter(self._entries(case_id, check, target, torch_version, mode)), None)

    def match(
        self,
        case_id: str,
        check: str,
        target: str,
        torch_version: str,
        message: str,
        mode: str = "",
        problems: Sequence[Problem] = (),
    ) -> KnownFailure | None:
        """The entry that excuses this error; None if there is none. Records that the entry was used.

        `message`: the error's type and message. `problems`: those of wrong numerics. Several entries may share them;
        then this is the first one.
        """
        entries = self._entries(case_id, check, target, torch_version, mode)
        if problems:  # only entries that name problems excuse them: an error's text would excuse all of them
            naming = [failure for failure in entries if failure.excuses]
            found = naming[0] if naming and not unexcused(problems, _excuses(naming)) else None
        else:
            found = next((failure for failure in entries if failure.error and failure.error in message), None)
        if found is not None:
            self.used.add((case_id, check, target))
        return found

    def unexcused(
        self, case_id: str, target: str, torch_version: str, problems: Sequence[Problem], mode: str = ""
    ) -> list[Problem]:
        """Those of an item's problems that no entry names."""
        entries = self._entries(case_id, "numerics", target, torch_version, mode)
        return unexcused(problems, _excuses(entries))

    def errors(self, case_id: str, check: str, target: str, torch_version: str, mode: str = "") -> list[str]:
        """The `error` of each entry for this check of this item that has one."""
        entries = self._entries(case_id, check, target, torch_version, mode)
        return [failure.error for failure in entries if failure.error]

    def idle_problem(
        self, case_id: str, target: str, torch_version: str, problems: Sequence[Problem], mode: str = ""
    ) -> EntryProblem | None:
        """For excused numerics: an entry none of whose problems occurs; None if there is no such entry."""
        for failure in self._own_entries(case_id, "numerics", target, torch_version, mode):
            if failure.sometimes or not failure.excuses:
                continue
            if not any(each.matches(problem) for each in failure.excuses for problem in problems):
                return EntryProblem(
                    self._severity(torch_version, failure),
                    f"{failure.where}: {case_id} on {target} has no problem that the entry names on torch "
                    f"{torch_version} ({failure.reason}); correct or remove the entry: {_KEYS_PAGE}",
                )
        return None

    def _entries(self, case_id: str, check: str, target: str, torch_version: str, mode: str) -> list[KnownFailure]:
        """The entries for a target; where none names it, those for the target that it is like (see excused_like).

        In each folder by itself: an entry of an overlay and one beside the cases both apply.
        """
        found = self._own_entries(case_id, check, target, torch_version, mode)
        if base := excused_like(target):
            own = {failure.layer for failure in found}
            inherited = self._own_entries(case_id, check, base, torch_version, mode)
            found += [failure for failure in inherited if failure.layer not in own]
        return found

    def _own_entries(self, case_id: str, check: str, target: str, torch_version: str, mode: str) -> list[KnownFailure]:
        item = (case_id, check, target)
        return [
            failure
            for failure in self.failures
            if item in failure.items() and self._applies(failure, torch_version, mode)
        ]

    def entry_that_leaves_out(
        self, case_id: str, check: str, target: str, torch_version: str, mode: str = ""
    ) -> KnownFailure | None:
        """The entry that says that this check must not run; None if there is none. Records that the entry was used."""
        failure = next(
            (each for each in self._entries(case_id, check, target, torch_version, mode) if not each.run), None
        )
        if failure is not None:
            self.used.add((case_id, check, target))
        return failure

    def add_used(self, items: Iterable[ItemCheck]) -> None:
        """Records checks that entries excused in another process."""
        self.used.update(items)

    def stale_entry(
        self, case_id: str, check: str, target: str, torch_version: str, mode: str = ""
    ) -> EntryProblem | None:
        """For a check that passed: the entry that says that it fails; None if there is none."""
        entries = self._own_entries(case_id, check, target, torch_version, mode)
        failure = next((each for each in entries if not each.sometimes), None)
        if failure is None:
            return None
        return EntryProblem(
            self._severity(torch_version, failure),
            f"{failure.where}: {case_id} on {target} passes {check} on torch {torch_version}, but the entry says that "
            f"it fails ({failure.reason}); end the entry's torch range below that version, or remove the entry, or "
            f"write `sometimes`: {_KEYS_PAGE}",
        )

    def unused_entries(
        self, ran: Iterable[ItemCheck], torch_version: str, modes: Mapping[tuple[str, str], str] = UNKNOWN_MODES
    ) -> list[EntryProblem]:
        """Entries that excused nothing although at least one of their items ran. `ran`: the checks of all workers.

        `modes`: (case, target) → how the item ran. An item that is not in it may have run in either mode.
        """
        checks = set(ran)
        problems = []
        for failure in self.failures:
            items = [
                item
                for item in failure.items()
                if item in checks and self._applies(failure, torch_version, modes.get((item[0], item[2]), ""))
            ]
            if items and not failure.sometimes and not self.used.intersection(items):
                problems.append(
                    EntryProblem(
                        self._severity(torch_version, failure),
                        f"{failure.where}: matched nothing, although {len(items)} of its items ran on torch "
                        f"{torch_version}, such as {items[0][0]} on {items[0][2]}; correct or remove the entry: "
                        f"{_KEYS_PAGE}",
                    )
                )
        return problems

    def unused_problems(
        self, ran: Mapping[tuple[str, str], RanNumerics], torch_version: str, unreachable: Collection[str] = ()
    ) -> list[EntryProblem]:
        """Problems of entries that occurred in none of the entry's items, if all of them ran.

        `ran`: (case, target) → its numerics. `unreachable`: targets that no run on this kind of machine can execute.
        An entry of which nothing occurred is not mentioned: `unused_entries` has it.
        """
        unused = []
        for failure in self.failures:
            names = [(case, target) for case, _, target in failure.items() if target not in unreachable]
            if failure.sometimes or not failure.excuses or not names or not all(name in ran for name in names):
                continue
            items = [ran[name] for name in names if self._applies(failure, torch_version, ran[name].mode)]
            problems = [problem for item in items for problem in item.problems]
            idle = [each for each in failure.excuses if not any(each.matches(problem) for problem in problems)]
            if len(idle) < len(failure.excuses):
                unused += [
                    EntryProblem(
                        self._severity(torch_version, failure),
                        f"{failure.where}: its problem {failure.excuses.index(each) + 1} ({', '.join(each.calls)}: "
                        f"{', '.join(each.tensors)} {each.rule}) occurred in none of its {len(items)} items on torch "
                        f"{torch_version}; correct or remove it: {_KEYS_PAGE}",
                    )
                    for each in idle
                ]
        return unused

    def _severity(self, torch_version: str, failure: KnownFailure) -> Literal["error", "notice"]:
        """Of an entry that excuses nothing on this torch."""
        release = Version(_release(torch_version)).release[:2]
        baseline = self.overlay_baseline if failure.layer else self.baseline
        return "error" if not baseline or release == Version(baseline).release else "notice"

    def _applies(self, failure: KnownFailure, torch_version: str, mode: str) -> bool:
        return failure.applies_to(torch_version, mode, self.backend_option)

    def validate(self, cases: Iterable[str], targets: Iterable[str], operators: Collection[str] | None = None) -> None:
        """Refuses entries for cases or targets that do not exist. Call it when all cases were collected.

        `cases`: all ids; `targets`: all names. `operators`: only cases of these were collected, None for all.
        Raises KnownFailureError for the first wrong entry.
        """
        known = {"case": set(cases), "target": set(targets)}
        for failure in self.failures:
            named = [each for each in failure.cases if operators is None or each.partition("/")[0] in operators]
            for key, names in {"case": named, "target": failure.targets}.items():
                for name in names:
                    if name not in known[key]:
                        hint = _nearest_name(name, known[key])
                        raise KnownFailureError(f"{failure.where}: there is no {key} {name!r}{hint}")


def load(
    folder: Path | None,
    backend_option: str = "",
    baseline: str = BASELINE,
    overlays: Sequence[str] = (),
    overlay_baseline: str = "",
) -> KnownFailures:
    """All entries of the folder's *.toml files, by name of the file. `backend_option`, `baseline`, `overlay_baseline`:
    see KnownFailures.

    `overlays`: further folders, whose entries apply too. Raises KnownFailureError for a file that is malformed or
    cannot be read.
    """
    failures: list[KnownFailure] = []
    by_item: dict[ItemCheck, list[KnownFailure]] = {}
    for layer in (*([""] if folder else []), *overlays):
        for failure in _entries_of(folder if folder and not layer else Path(layer), layer):
            for item in failure.items():
                for other in by_item.setdefault(item, []):
                    if _excuses_the_same(other, failure):
                        raise KnownFailureError(
                            f"{failure.where}: repeats {other.where} for {' '.join(item)}; remove one of them"
                        )
                by_item[item].append(failure)
            failures.append(failure)
    return KnownFailures(failures, backend_option=backend_option, baseline=baseline, overlay_baseline=overlay_baseline)


def _entries_of(folder: Path, layer: str) -> Iterator[KnownFailure]:
    """The entries of one folder. Messages name the file, and the folder too if it is an overlay."""
    for file in sorted(folder.glob("*.toml")):
        name = str(file) if layer else file.name
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise KnownFailureError(f"{name} is not valid TOML: {error}") from error
        except OSError as error:
            raise KnownFailureError(f"{file} cannot be read: {error.strerror}") from error
        entries = data.pop("failure", [])
        if data or not isinstance(entries, list):
            key = min(data) if data else "failure"
            raise KnownFailureError(f"{name}: {key!r} is not expected; the file is a list of [[failure]] tables")
        for number, entry in enumerate(entries, 1):
            yield replace(parse_entry(f"{name}, failure {number}", entry), layer=layer)


def parse_entry(where: str, entry: Any) -> KnownFailure:
    """One [[failure]] table. `where`: for messages. Raises KnownFailureError."""
    if not isinstance(entry, dict):
        raise KnownFailureError(f"{where}: is {entry!r}; write a [[failure]] table with the keys {', '.join(_KEYS)}")
    for key in entry:
        if key not in (*_KEYS, *_OPTIONAL):
            known = ", ".join((*_KEYS, *_OPTIONAL))
            raise KnownFailureError(f"{where}: unknown key {key!r}; the keys are {known}")
    for key in _KEYS:
        if key not in entry:
            raise KnownFailureError(f"{where}: {key!r} is missing; the keys are {', '.join(_KEYS)}")
    values = {key: _parse_text(where, key, entry[key]) for key in ("check", "torch", "reason", "issue")}
    if values["check"] not in CHECKS:
        raise KnownFailureError(f"{where}: unknown check {values['check']!r}; known are {', '.join(CHECKS)}")
    mode = entry.get("mode", "")
    if "mode" in entry and mode not in _MODES:
        raise KnownFailureError(f"{where}: mode is {mode!r}; write {' or '.join(_MODES)}, or leave it out for both")
    issue = values["issue"]
    if issue != "not reported" and not issue.startswith(("https://", "http://")):
        raise KnownFailureError(f"{where}: issue is {issue!r}; write its URL, or 'not reported'")
    try:
        versions = SpecifierSet(values["torch"])
    except InvalidSpecifier as error:
        raise KnownFailureError(
            f"{where}: torch is {values['torch']!r}, not a version range; write one such as '>=2.11,<2.14'"
        ) from error
    run = entry.get("run", True)
    if not isinstance(run, bool):
        raise KnownFailureError(f"{where}: run is {run!r}; write `run = false`, or leave it out")
    if not run and not any(spec.operator in ("<", "<=", "==") for spec in versions):
        raise KnownFailureError(
            f"{where}: with `run = false` nobody notices that a newer torch mends the bug; end the range, as in "
            f"torch = '{values['torch']},<2.14'"
        )
    sometimes = _parse_text(where, "sometimes", entry["sometimes"]) if "sometimes" in entry else ""
    text, named = _parse_matcher(where, values["check"], entry)
    return KnownFailure(
        where,
        cases=_parse_names(where, "case", entry["case"]),
        check=values["check"],
        targets=_parse_names(where, "target", entry["target"]),
        torch=versions,
        error=text,
        excuses=named,
        reason=values["reason"],
        issue=issue,
        reproduction=_parse_script(where, entry.get("reproduction", "")),
        mode=mode,
        backend_options=_parse_backend_options(where, entry),
        run=run,
        sometimes=sometimes,
        triage=_parse_triage(where, entry),
    )


def _parse_triage(where: str, entry: Mapping[str, Any]) -> triage.Triage | None:
    try:
        return triage.parse(entry["triage"]) if "triage" in entry else None
    except triage.TriageError as wrong:
        raise KnownFailureError(f"{where}: {wrong}") from None


def _parse_matcher(where: str, check: str, entry: Mapping[str, Any]) -> tuple[str, tuple[Excuse, ...]]:
    """The entry's `error` and its excuses: one of them is empty."""
    if ("error" in entry) == ("problems" in entry):
        raise KnownFailureError(
            f"{where}: write either 'error', a part of an exception's type and message, or 'problems', for numerics"
        )
    if "problems" not in entry:
        error = _parse_text(where, "error", entry["error"])
        if _EXCEPTION_ALONE.fullmatch(error.strip()) or any(part in error for part in _EVERY_FAILURE):
            raise KnownFailureError(
                f"{where}: error {error!r} excuses more than one bug; name the exception and what its message says of "
                "the cause, such as the operator, or write 'problems'"
            )
        return error, ()
    if check != "numerics":
        raise KnownFailureError(f"{where}: 'problems' are those of numerics, and check is {check!r}; write 'error'")
    try:
        return "", excuses.parse(entry["problems"])
    except excuses.ExcuseError as wrong:
        raise KnownFailureError(f"{where}: {wrong}") from None


def _excuses(failures: Iterable[KnownFailure]) -> list[Excuse]:
    return [each for failure in failures for each in failure.excuses]


def _excuses_the_same(one: KnownFailure, other: KnownFailure) -> bool:
    """Whether two entries for one item excuse the same error in the same runs."""
    if (one.torch, one.error, one.mode, one.excuses) != (other.torch, other.error, other.mode, other.excuses):
        return False
    return not set(one.backend_options).isdisjoint(other.backend_options)


def _parse_backend_options(where: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """As in Settings.backend_option: "--via export", "--backend aot_eager", or "" for Inductor."""
    options = []
    for key in _RUN_OPTIONS:
        names = _parse_names(where, key, entry[key]) if key in entry else ()
        for name in names:
            if key == "via" and name not in VIA[1:]:
                raise KnownFailureError(f"{where}: via is {name!r}; write {' or '.join(VIA[1:])}, or leave it out")
            options.append("" if name == "inductor" else f"--{key} {name}")
    return tuple(options) or ("",)


def _parse_script(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise KnownFailureError(f"{where}: reproduction is {value!r}; write a script as text")
    try:
        compile(value, where, "exec")
    except SyntaxError as error:
        raise KnownFailureError(
            f"{where}: reproduction is not valid Python: line {error.lineno}: {error.msg}"
        ) from error
    return value


def _parse_text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise KnownFailureError(f"{where}: {key} is {value!r}; write a text that is not empty")
    return value


def _parse_names(where: str, key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise KnownFailureError(f"{where}: {key} is {value!r}; write a name or a list of names")
    for name in names:
        _parse_text(where, key, name)
        if "*" in name:
            raise KnownFailureError(f"{where}: {key} {name!r} has a '*'; names are exact: list the names that fail")
    if len(set(names)) < len(names):
        raise KnownFailureError(f"{where}: {key} names {max(names, key=names.count)!r} twice")
    return tuple(names)


def _release(torch_version: str) -> str:
    """2.15.0 for 2.15.0.dev20261101+cpu: a nightly build counts as its release."""
    return Version(torch_version).base_version


def _nearest_name(name: str, known: set[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
