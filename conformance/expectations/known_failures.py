"""Known failures: the entries of known_failures/*.toml, and which of them excuses what.

An entry that excuses nothing is stale. So is a problem of an entry that occurs in none of its items.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from packaging.version import Version

from conformance.devices.targets import excused_like
from conformance.devices.torch_releases import STRICT
from conformance.documentation import reference
from conformance.expectations.known_failure_entry import (
    EVERY_CASE,
    ItemCheck,
    KnownFailure,
    KnownFailureError,
    parse_entry,
    release_of,
)
from conformance.numerics.problem import Problem, unexcused
from conformance.words import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS_PAGE = reference("public-names", "file-formats")

#: For `unused_entries`: how each item ran is not known.
UNKNOWN_MODES: Mapping[tuple[str, str], str] = {}


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

    `inductor_options`: the run's too, each as `--inductor-config KEY=VALUE`. Entries for them apply beside the others.

    `strict`: the torch release on which an entry that excuses nothing is an error, such as STRICT; on others, it is
    a notice. "": an error on each release that the entry is for. `overlay_strict`: the same for entries of overlays.
    """

    failures: list[KnownFailure] = field(default_factory=list)
    used: set[ItemCheck] = field(default_factory=set)
    backend_option: str = ""
    strict: str = STRICT
    overlay_strict: str = ""
    other_values: bool = False
    inductor_options: tuple[str, ...] = ()

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
            excused = not self._unexcused(problems, naming)
            found = next(
                (each for each in naming if excused and self._unexcused(problems, [each]) != [*problems]), None
            )
        else:
            found = next((failure for failure in entries if failure.error and failure.error in message), None)
        if found is not None:
            self.used.add((case_id, check, target))
        return found

    def unexcused(
        self, case_id: str, target: str, torch_version: str, problems: Sequence[Problem], mode: str = ""
    ) -> list[Problem]:
        """The problems of an item that no entry names. `problems`: all of its problems."""
        entries = self._entries(case_id, "numerics", target, torch_version, mode)
        return self._unexcused(problems, entries)

    def _unexcused(self, problems: Sequence[Problem], entries: Iterable[KnownFailure]) -> list[Problem]:
        excuses = [each for failure in entries for each in failure.excuses]
        return unexcused(problems, excuses, other_values=self.other_values)

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
        """The entries for a target; where none names it, those for the target that it is like (see excused_like), which
        may be like a third one.

        In each folder by itself: an entry of an overlay and one beside the cases both apply.
        """
        found = self._own_entries(case_id, check, target, torch_version, mode)
        while target := excused_like(target):
            own = {failure.layer for failure in found}
            inherited = self._own_entries(case_id, check, target, torch_version, mode)
            found += [failure for failure in inherited if failure.layer not in own]
        return found

    def _own_entries(self, case_id: str, check: str, target: str, torch_version: str, mode: str) -> list[KnownFailure]:
        return [
            failure
            for failure in self.failures
            if failure.is_for(case_id, check, target) and self._applies(failure, torch_version, mode)
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
        """For a check that passed: the entry that says that it fails; None if there is none.

        An entry for every case says which error may come, and not that each case has it.
        """
        entries = self._own_entries(case_id, check, target, torch_version, mode)
        failure = next((each for each in entries if not each.sometimes and EVERY_CASE not in each.cases), None)
        if failure is None:
            return None
        return EntryProblem(
            self._severity(torch_version, failure),
            f"{failure.where}: {case_id} on {target} passes {check} on torch {torch_version}, but the entry says that "
            f"it fails ({failure.reason}); end the entry's torch range below that version, or remove the entry, or "
            f"write `sometimes`: {_KEYS_PAGE}",
        )

    def reason(self, case_id: str, check: str, target: str, torch_version: str, mode: str = "") -> str:
        """The reason of the first entry that says that the check fails; "" if there is none."""
        entries = self._own_entries(case_id, check, target, torch_version, mode)
        return next((each.reason for each in entries), "")

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
        release = Version(release_of(torch_version)).release[:2]
        strict = self.overlay_strict if failure.layer else self.strict
        return "error" if not strict or release == Version(strict).release else "notice"

    def _applies(self, failure: KnownFailure, torch_version: str, mode: str) -> bool:
        return failure.applies_to(torch_version, mode, (self.backend_option, *self.inductor_options))

    def validate(self, cases: Iterable[str], targets: Iterable[str], operators: Collection[str] | None = None) -> None:
        """Refuses entries for cases or targets that do not exist. Call it when all cases were collected.

        `cases`: all ids; `targets`: all names. `operators`: only cases of these were collected, None for all.
        Raises KnownFailureError for the first wrong entry.
        """
        known = {"case": {*cases, EVERY_CASE}, "target": set(targets)}
        for failure in self.failures:
            named = [each for each in failure.cases if operators is None or each.partition("/")[0] in operators]
            for key, names in {"case": named, "target": failure.targets}.items():
                for name in names:
                    if name not in known[key]:
                        hint = did_you_mean(name, known[key])
                        raise KnownFailureError(f"{failure.where}: there is no {key} {name!r}{hint}")


def load(
    folder: Path | None,
    backend_option: str = "",
    strict: str = STRICT,
    overlays: Sequence[str] = (),
    overlay_strict: str = "",
    *,
    other_values: bool = False,
    inductor_options: tuple[str, ...] = (),
) -> KnownFailures:
    """All entries of the folder's *.toml files, by name of the file. `backend_option`, `strict`, `overlay_strict`,
    `other_values`, `inductor_options`: see KnownFailures.

    `overlays`: further folders, whose entries apply too. A file that is named twice counts once. Raises
    KnownFailureError for a file that is malformed or cannot be read.
    """
    failures: list[KnownFailure] = []
    by_item: dict[ItemCheck, list[KnownFailure]] = {}
    read: set[Path] = set()
    for layer in (*([""] if folder else []), *overlays):
        for failure in _entries_of(folder if folder and not layer else Path(layer), layer, read):
            for item in failure.items():
                for other in by_item.setdefault(item, []):
                    if _excuses_the_same(other, failure):
                        raise KnownFailureError(
                            f"{failure.where}: repeats {other.where} for {' '.join(item)}; remove one of them"
                        )
                by_item[item].append(failure)
            failures.append(failure)
    return KnownFailures(failures, set(), backend_option, strict, overlay_strict, other_values, inductor_options)


def _entries_of(folder: Path, layer: str, read: set[Path]) -> Iterator[KnownFailure]:
    """The entries of one folder. Messages name the file, and the folder too if it is an overlay.

    `read`: the files that were read before, which are left out.
    """
    for file in sorted(folder.glob("*.toml")):
        if file.resolve() in read:
            continue
        read.add(file.resolve())
        try:
            state = file.stat()
            yield from _entries_in(file, layer, (state.st_mtime_ns, state.st_size))
        except OSError as error:
            raise KnownFailureError(f"{file} cannot be read: {error.strerror}") from error


@functools.cache
def _entries_in(file: Path, layer: str, _state: tuple[int, int]) -> tuple[KnownFailure, ...]:
    """The entries of one file, parsed once for each state of it: collection, items and summary ask for them."""
    name = str(file) if layer else file.name
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KnownFailureError(f"{name} is not valid TOML: {error}") from error
    entries = data.pop("failure", [])
    if data or not isinstance(entries, list):
        key = min(data) if data else "failure"
        raise KnownFailureError(f"{name}: {key!r} is not expected; the file is a list of [[failure]] tables")
    return tuple(
        replace(parse_entry(f"{name}, failure {number}", entry), layer=layer) for number, entry in enumerate(entries, 1)
    )


def _excuses_the_same(one: KnownFailure, other: KnownFailure) -> bool:
    """Whether two entries for one item excuse the same error in the same runs."""
    if (one.torch, one.error, one.mode, one.excuses) != (other.torch, other.error, other.mode, other.excuses):
        return False
    return not set(one.backend_options).isdisjoint(other.backend_options)
