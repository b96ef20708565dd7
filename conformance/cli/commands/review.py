"""`review`: the changes of a run, a group of equal edits at a time: accept, reject or skip each."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.cases.lookup import OPS
from conformance.cli.commands.accept import stores
from conformance.devices.targets import targets
from conformance.errors import ConformanceError
from conformance.review import overview, review
from conformance.review.groups import Changed, Group, count
from conformance.review.review import Differing, Review
from conformance.storage.runs import LAST, ItemRecord, Run, existing, runs_folder
from conformance.terminal import diff_line, heading, styled

_REJECTED = "review.json"
_KEYS = {"a": "accept", "r": "reject", "s": "skip", "d": "diff", "q": "quit"}


class ReviewError(ConformanceError, ValueError):
    """A group or case that is not there; the message names those that are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=LAST, metavar="RUN", help="a run's folder or name; the last one")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="where the cases are; the package's own if left out")
    parser.add_argument("--by", choices=("group", "case"), default="group", help="what to walk through")
    parser.add_argument("--list", action="store_true", help="the groups (or cases), a line each")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="WHAT",
        help="groups by number or id, a case, an item, or all; comma-separated",
    )
    parser.add_argument("--baseline", metavar="RUN", help="compare with that run; nothing can be accepted then")


def run(arguments: argparse.Namespace) -> int:
    """1 where something was rejected or could not be taken. Raises RunError, ReviewError and CaseError."""
    brought = _run(arguments.folder)
    if arguments.baseline and arguments.accept:
        raise ReviewError("--accept stores a run's code, and --baseline compares with a run: give one of them")
    found, unknown = _compared(brought, arguments)
    session = _Session(brought, found, arguments.baseline is None)
    for problem in [*found.problems, *unknown]:
        print(problem, file=sys.stderr)
    if arguments.accept:
        status = session.accept([word for words in arguments.accept for word in words.split(",") if word])
    elif arguments.json:
        print(json.dumps(session.to_json(), indent=1, ensure_ascii=False))
        status = 0
    elif arguments.list:
        print("\n".join(session.listed(arguments.by)))
        status = 0
    else:
        status = session.walk(arguments.by)
    return max(status, int(bool(found.problems or unknown)))


def _run(word: str) -> Run:
    return existing(Path.cwd(), word + os.sep if Path(word).is_dir() else word)


def _compared(brought: Run, arguments: argparse.Namespace) -> tuple[Review, list[str]]:
    """The run against what is stored in this checkout; what it has of cases that are not here."""
    items, unknown = list(brought.items()), []
    if arguments.baseline:
        return review.compared(items, review.of_run(_run(arguments.baseline), arguments.baseline)), []
    table = targets()
    items = [item for item in items if item.target in table]
    if not _made_here(brought, items) or arguments.paths:
        folders = stores([Path(path) for path in arguments.paths] or [OPS])
        unknown = [f"{item.name}: there is no such case here" for item in items if item.case not in folders]
        items = [dataclasses.replace(item, store=str(folders[item.case])) for item in items if item.case in folders]
    return review.compared(items, review.stored(list(table))), unknown


def _made_here(brought: Run, items: Sequence[ItemRecord]) -> bool:
    """Whether the stores that the run names are this checkout's: it is kept among the runs of this folder."""
    here = brought.folder.resolve().parent == runs_folder(Path.cwd()).resolve()
    return here and all(Path(item.store).resolve().is_relative_to(Path.cwd().resolve()) for item in items)


class _Session:
    """One review: what was decided, and what came of it."""

    def __init__(self, brought: Run, found: Review, can_accept: bool) -> None:
        self.run, self.review, self.can_accept = brought, found, can_accept
        self.rejected = _read_rejected(brought)

    # What there is ----------------------------------------------------------------------------------------------------

    def listed(self, by: str) -> list[str]:
        if not self.review.differing and not self.review.new:
            return [f"nothing differs: {self.review.equal} texts are as stored"]
        lines = [overview.headline(self.review)] if self.review.differing else []
        if by == "case":
            for case, items in review.by_case(self.review).items():
                numbers = sorted({number for each in items for number in self.review.groups_of[each.name]})
                names = ", ".join(each.item.target for each in items)
                lines.append(f"  {case}: {names} (groups {', '.join(map(str, numbers))})")
        else:
            for number, each in enumerate(self.review.groups, 1):
                rejected = "rejected: " if each.id in self.rejected else ""
                indent = "    " if each.within else ""
                lines.append(f"{number:>3}  {each.id}  {indent}{rejected}{overview.line_of(each)}")
        return lines + self._new_lines()

    def _new_lines(self) -> list[str]:
        new = self.review.new
        if not new:
            return []
        cases = len({item.case for item in new})
        said = f"{count(len(new), 'text')} of {count(cases, 'case')}"
        return [f"{said} {'is' if len(new) == 1 else 'are'} new: nothing is stored (--accept new)"]

    def to_json(self) -> dict[str, Any]:
        groups = [
            {
                "number": number,
                "id": each.id,
                "kind": each.kind,
                "title": each.title,
                "kernels": each.kernels,
                "cases": each.cases,
                "targets": each.targets,
                "items": [member.name for member in each.members],
                "facts": dict(each.facts),
                "within": each.within or None,
                "example": {"item": each.example.item.name, "where": each.example.where, "diff": each.example.hunk},
                "rejected": each.id in self.rejected,
            }
            for number, each in enumerate(self.review.groups, 1)
        ]
        items = {
            each.name: {
                "case": each.item.case,
                "target": each.item.target,
                "torch": each.item.torch,
                "groups": self.review.groups_of[each.name],
                "compared_with": each.since or "stored",
                "facts": review.facts_that_changed(each),
                "numerics_fail": each.fails,
                "diff": each.difference.diff if each.difference else (),
            }
            for each in self.review.differing.values()
        }
        new = [item.name for item in self.review.new]
        return {"run": str(self.run.folder), "equal": self.review.equal, "new": new, "groups": groups, "items": items}

    # Accepting --------------------------------------------------------------------------------------------------------

    def accept(self, words: Sequence[str]) -> int:
        """Groups, cases and items by name. An item that differs by another edit as well waits for that one."""
        numbers, named = set(), []
        for word in words:
            found = self._numbers(word)
            numbers |= set(found or ())
            if found is None:
                named += self._named(word)
        numbers |= {inner for number in numbers for inner in self.review.inner(number)}
        for number in sorted(numbers):
            print(f"group {number}: {overview.line_of(self.review.groups[number - 1])}")
        whole, waiting = self.review.accepting(numbers)
        whole += [each for each in named if each.name not in {other.name for other in whole}]
        new = self.review.new if {"new", "all"} & set(words) else []
        return self._take(
            whole, {name: left for name, left in waiting.items() if name not in {e.name for e in whole}}, new
        )

    def _numbers(self, word: str) -> list[int] | None:
        """The groups that a word names; None where it names a case or an item."""
        groups = self.review.groups
        if word == "all":
            return list(range(1, len(groups) + 1))
        if word == "new":
            return []
        if word.isdecimal() and len(word) < 6:
            if not 1 <= int(word) <= len(groups):
                raise ReviewError(f"there is no group {word}: there are {len(groups)}")
            return [int(word)]
        return [number for number, each in enumerate(groups, 1) if each.id == word] or None

    def _named(self, word: str) -> list[Differing]:
        differing = self.review.differing
        found = [each for each in differing.values() if word in (each.item.case, each.name)]
        if not found:
            raise ReviewError(
                f"{word!r} is no group, case or item that differs; `python -m conformance review --list` names the "
                "groups, with `--by case` the cases"
            )
        return found

    def _take(self, whole: Sequence[Differing], waiting: dict[str, list[int]], new: Sequence[ItemRecord] = ()) -> int:
        """Stores, and says what is stored, what was refused, and what waits for another group."""
        if not self.can_accept:
            return 0
        taken = review.take([*whole, *(_as_differing(item) for item in new)], list(targets()))
        print("\n".join(taken.lines()))
        for name, left in sorted(waiting.items())[:5]:
            said = f"group{'s' * (len(left) > 1)} {', '.join(map(str, left[:6]))}{', …' if len(left) > 6 else ''}"
            print(f"not yet: {name} differs by {said} as well")
        if len(waiting) > 5:
            print(f"not yet: {len(waiting) - 5} more")
        return int(bool(taken.refused or taken.problems))

    # Walking ----------------------------------------------------------------------------------------------------------

    def walk(self, by: str) -> int:
        """Asks for each group, with those within it, or each case; stores at the end, or at `quit`."""
        if not self.review.differing:
            print("\n".join(self.listed(by)))
            return 0
        print(overview.headline(self.review))
        if by == "case":
            return self._walk_cases()
        accepted: set[int] = set()
        for number, each in enumerate(self.review.groups, 1):
            if each.within:
                continue  # asked with the group that it is within
            answer = self._ask(self._group_lines(number), self.review.members(number))
            if answer == "quit":
                break
            together = {n: self.review.groups[n - 1] for n in (number, *self.review.inner(number))}
            if answer == "accept":
                accepted.update(together)
                self.rejected = {key: title for key, title in self.rejected.items() if key not in _ids(together)}
            elif answer == "reject":
                self.rejected.update({one.id: one.title for one in together.values()})
        _write_rejected(self.run, self.rejected)
        whole, waiting = self.review.accepting(accepted)
        status = self._take(whole, waiting) if accepted else 0
        mine = [each for each in self.review.groups if each.id in self.rejected]
        if mine:
            print(f"rejected: {len(mine)} of {len(self.review.groups)} groups; nothing of their items was stored")
        return max(status, int(bool(mine)))

    def _walk_cases(self) -> int:
        accepted: list[Differing] = []
        rejected = 0
        cases = review.by_case(self.review)
        for number, (case, items) in enumerate(cases.items(), 1):
            answer = self._ask(self._case_lines(f"case {number} of {len(cases)}: {case}", items), items)
            if answer == "quit":
                break
            if answer == "accept":
                accepted += items
            rejected += answer == "reject"
        status = self._take(accepted, {}) if accepted else 0
        if rejected:
            print(f"rejected: {rejected} of {len(cases)} cases")
        return max(status, int(rejected > 0))

    def _group_lines(self, number: int) -> list[str]:
        each = self.review.groups[number - 1]
        rejected = " (rejected before)" if each.id in self.rejected else ""
        head = f"group {number} of {len(self.review.groups)}: {'fact: ' if each.kind == 'fact' else ''}{each.title}"
        lines = [heading(head) + rejected, f"  {each.reach}"]
        if each.kind == "code":
            facts = "; ".join(f"{title} ({count} of {len(each.members)})" for title, count in each.facts[:4])
            lines.append(f"  facts: {facts or 'unchanged'}")
        fails = sum(member.fails for member in self.review.members(number))
        lines += [styled(f"  numerics of {fails} of them fail: those are not accepted", "red")] if fails else []
        inner = self.review.inner(number)
        lines += ["  with it, in the same texts:"] if inner else []
        lines += [f"    {n}  {overview.line_of(self.review.groups[n - 1])}" for n in inner]
        others = {n for member in each.members for n in self.review.groups_of[member.name]} - {number, *inner}
        if others:
            lines.append(f"  its texts are also in {overview.groups_said(sorted(others))}")
        where = f", {each.example.where}" if each.example.where else ""
        lines += ["", f"  {each.example.item.name}{where}"]
        return lines + [f"  {diff_line(overview.short(line, 160))}" for line in each.example.hunk]

    def _case_lines(self, head: str, items: Sequence[Differing]) -> list[str]:
        """The diff of each distinct change once, under the targets that it is of."""
        lines = [heading(head)]
        distinct: dict[tuple[str, ...], list[Differing]] = {}
        for each in items:
            found = each.difference
            distinct.setdefault((*found.facts, *found.diff) if found else (), []).append(each)
        for same in distinct.values():
            found = same[0].difference
            fails = " (numerics fail: not accepted)" if any(each.fails for each in same) else ""
            lines.append(f"  on {', '.join(each.item.target for each in same)}{fails}:")
            lines += _message(found) if found else []
        return lines

    def _ask(self, lines: Sequence[str], items: Sequence[Differing]) -> str:
        """One of _KEYS' words. `diff` shows the items' whole diffs, one at a time."""
        print("\n" + "\n".join(lines))
        shown = iter(items)
        while True:
            verbs = _KEYS.values() if self.can_accept else ("skip", "diff", "quit")
            answer = _KEYS.get(
                _key(f"\n[{', '.join(f'{verb[0]}]{verb[1:]}' for verb in verbs).replace(', ', ', [')}? "), ""
            )
            if answer == "diff":
                each = next(shown, None)
                print("\n".join([f"\n{each.name}", *_message(each.difference)]) if each else "\nthat was the last")
            elif answer in verbs:
                return answer


def _ids(groups: Mapping[int, Group]) -> set[str]:
    return {each.id for each in groups.values()}


def _message(found: review.Difference | None) -> list[str]:
    if found is None:
        return []
    facts = ["facts changed:", *found.facts] if found.facts else ["facts unchanged"]
    return [
        *(f"    {line}" for fact in facts for line in fact.split("\n")),
        *(f"    {diff_line(x)}" for x in found.diff),
    ]


def _as_differing(item: ItemRecord) -> Differing:
    return Differing(item, Changed(item.case, item.target, "", item.text))


def _key(prompt: str) -> str:
    """One key, without a newline where a terminal gives it; the end of the input is `q`."""
    print(prompt, end="", flush=True)
    key = _read_key()
    while key.isspace():
        key = _read_key()
    if key in ("", "\x04"):
        key = "q"
    if key == "\x03":
        raise KeyboardInterrupt
    print(key)
    return key.lower()


def _read_key() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.read(1)
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        return sys.stdin.read(1)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _read_rejected(brought: Run) -> dict[str, str]:
    """Group id → title, of those rejected in an earlier review of the run."""
    try:
        return json.loads((brought.folder / _REJECTED).read_text(encoding="utf-8"))["rejected"]
    except (OSError, ValueError, KeyError):
        return {}


def _write_rejected(brought: Run, rejected: dict[str, str]) -> None:
    with contextlib.suppress(OSError):  # an artefact may lie where nothing can be written: then it is asked again
        if rejected or (brought.folder / _REJECTED).exists():
            (brought.folder / _REJECTED).write_text(json.dumps({"rejected": rejected}, indent=1), encoding="utf-8")
