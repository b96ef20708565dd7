"""`review`: the changes of a run, one cause at a time: accept, reject or skip each."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from conformance.cli import review_blame
from conformance.cli.overlay_options import refuse_configured_run, store_of_run
from conformance.cli.review_decisions import compared_with_stored, read_rejected, store_items, write_rejected
from conformance.cli.run_items import without_code
from conformance.cli.run_options import add_paths_argument, add_run_argument, find_baseline, find_run
from conformance.devices.targets import targets
from conformance.errors import ConformanceError
from conformance.review import overview, review
from conformance.review.causes import Cause
from conformance.review.review import ChangedItem, Review
from conformance.storage.runs import ItemRecord, Run
from conformance.terminal import diff_line, heading, styled
from conformance.words import pluralise

#: The first entry of `--json`; docs/formats.md describes the rest.
FORMAT = "conformance review 1"
#: Consequences that the question on a cause shows.
MAX_CONSEQUENCES = 12
_KEYS = {"a": "accept", "r": "reject", "s": "skip", "d": "diff", "q": "quit"}


class ReviewError(ConformanceError, ValueError):
    """An unknown cause or case, or options that exclude each other."""


DESCRIPTION = """\
Show what a run changed in the stored code, one cause at a time,
and ask: accept, reject or skip? Accepted code is stored at the end. An item
that also has another cause waits for that cause. Nothing is compiled.
Exit status 1: something was rejected or could not be stored."""

EXAMPLES = """\
examples:
  python -m conformance review                     ask for each cause
  python -m conformance review --list              only list the causes
  python -m conformance review --accept 1,3        accept two causes, do not ask
  pytest --save-run before; (edit Inductor); pytest
  python -m conformance review --baseline before   what the edit changed
  python -m conformance review --blame=~/venvs/torch213 --causes 1,3
                                                   which functions of torch"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    add_paths_argument(parser, "where the run says")
    parser.add_argument(
        "--by", choices=("cause", "case"), default="cause", help="ask for each cause (the default) or for each case"
    )
    parser.add_argument("--list", action="store_true", help="list the causes or cases, and do not ask")
    parser.add_argument("--json", action="store_true", help="print causes and items as JSON, and do not ask")
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="LIST",
        help="accept these and do not ask: causes by number or id, cases, items; `new`: all code that is not stored "
        "yet; or `all`",
    )
    parser.add_argument(
        "--baseline", metavar="RUN", help="compare with this run, or with the checkout that pytest's --baseline named"
    )
    parser.add_argument("--causes", default="", metavar="LIST", help="only these causes, by number or id; with --blame")
    parser.add_argument(
        review_blame.OPTION,
        nargs="?",
        const="",
        metavar="OLD",
        help="find the functions of PyTorch whose change makes each cause, and do not ask; OLD is the torch of the old "
        "code: a virtual environment, a folder that holds torch/, or PATH@COMMIT; default: that of --baseline",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if something was rejected or could not be stored. Raises RunError, ReviewError and CaseError."""
    reviewed = find_run(arguments.run)
    if arguments.baseline and arguments.accept:
        raise ReviewError("--accept stores a run's code, and --baseline compares with a run: give one of them")
    if not arguments.baseline:
        refuse_configured_run(reviewed)
    if arguments.causes and arguments.blame is None:
        raise ReviewError("--causes says which causes --blame looks at: give both, or accept with --accept LIST")
    if arguments.blame is not None and (arguments.accept or arguments.json):
        raise ReviewError("--blame neither accepts nor writes JSON: give it alone; a later review shows what it found")
    both = None if arguments.blame is None else review_blame.sides(arguments.blame, reviewed, arguments.baseline)
    store = store_of_run(arguments, reviewed)
    differences, unknown = _compared(reviewed, arguments, store)
    session = _ReviewSession(reviewed, differences, store, can_accept=arguments.baseline is None)
    for problem in [*differences.problems, *unknown]:
        print(problem, file=sys.stderr)
    if both:
        chosen = session.causes_named(arguments.causes)
        status = review_blame.blame(reviewed, differences, chosen, both, arguments.overlay.targets)
    elif arguments.accept:
        status = session.accept([word for words in arguments.accept for word in words.split(",") if word])
    elif arguments.json:
        print(json.dumps(session.to_json(), indent=1, ensure_ascii=False))
        status = 0
    elif arguments.list:
        print("\n".join(session.listing(arguments.by)))
        status = 0
    else:
        status = session.ask_for_each(arguments.by)
    compared = differences.equal or differences.changed_items or differences.new
    return max(status, int(bool(differences.problems or unknown or not compared)))


def _compared(reviewed: Run, arguments: argparse.Namespace, store: str) -> tuple[Review, list[str]]:
    """Returns the run compared with what is stored, and messages on items that cannot be compared.

    `store`: the folder that is laid over what is stored; "" for none.
    """
    if arguments.baseline:
        baseline = review.run_text_finder(find_baseline(arguments.baseline), arguments.baseline)
        return review.review_items(list(reviewed.items()), baseline), []
    differences, located = compared_with_stored(reviewed, store, arguments.paths)
    for line in (*located.notes, *without_code(located.items, targets())):
        print(line, file=sys.stderr)
    return differences, located.missing


class _ReviewSession:
    """One review: what differs, and what the user decided."""

    def __init__(self, reviewed: Run, differences: Review, store: str, *, can_accept: bool) -> None:
        self.run, self.review, self.can_accept = reviewed, differences, can_accept
        self.store = store
        self.items = sum(1 for _ in reviewed.items())
        self.rejected = read_rejected(reviewed)
        self.functions = review_blame.known_functions(reviewed, differences)

    # Listing ----------------------------------------------------------------------------------------------------------

    def listing(self, by: str) -> list[str]:
        if not self.review.causes and not self.review.new:
            return [self._nothing_line()]
        lines = [overview.headline(self.review)] if self.review.causes else []
        if by == "case":
            for case, items in review.changes_by_case(self.review).items():
                numbers = sorted({number for each in items for number in self.review.causes_of[each.name]})
                names = ", ".join(each.item.target for each in items)
                lines.append(f"  {case}: {names} (causes {', '.join(map(str, numbers))})")
        else:
            for number, cause in enumerate(self.review.causes, 1):
                rejected = "rejected: " if cause.id in self.rejected else ""
                lines.append(f"{number:>3}  {cause.id}  {rejected}{overview.cause_line(cause)}")
                lines += [f"             {line}" for line in self._function_lines(cause)]
        return lines + self._new_lines()

    def _function_lines(self, cause: Cause) -> list[str]:
        return self.functions[cause.id].lines() if cause.id in self.functions else []

    def _nothing_line(self) -> str:
        """Says that nothing differs, only if something was compared."""
        missing = self.items - self.review.equal
        left_out = f"; {pluralise(missing, 'item')} of the run could not be compared" if missing else ""
        if not self.review.equal:
            return f"nothing was compared{left_out}"
        return f"nothing differs: {pluralise(self.review.equal, 'text')} unchanged{left_out}"

    def _new_lines(self) -> list[str]:
        new = self.review.new
        if not new:
            return []
        texts = f"{pluralise(len(new), 'text')} of {pluralise(len({item.case for item in new}), 'case')}"
        verb = "is" if len(new) == 1 else "are"
        where = "stored yet (store with --accept new)" if self.can_accept else "in the baseline run"
        return [f"{texts} {verb} not {where}"]

    def to_json(self) -> dict[str, Any]:
        causes = [
            {
                "number": number,
                "id": each.id,
                "kind": each.kind,
                "title": each.title,
                "kernels": each.kernels,
                "cases": each.cases,
                "targets": each.targets,
                "items": [member.name for member in each.members],
                "only": list(each.only),
                "consequences": {consequence.title: consequence.texts for consequence in each.consequences},
                "example": {"item": each.example.item.name, "where": each.example.where, "diff": each.example.hunk},
                "rejected": each.id in self.rejected,
                **({"functions": list(self.functions[each.id].functions)} if each.id in self.functions else {}),
            }
            for number, each in enumerate(self.review.causes, 1)
        ]
        items = {
            each.name: {
                "case": each.item.case,
                "target": each.item.target,
                "torch": each.item.torch,
                "causes": self.review.causes_of[each.name],
                "compared_with": each.compared_with or "stored",
                "facts": review.changed_fact_titles(each),
                "numerics_fail": each.numerics_fail,
                "diff": each.difference.diff if each.difference else (),
            }
            for each in self.review.changed_items.values()
        }
        new = [item.name for item in self.review.new]
        return {
            "format": FORMAT,
            "run": str(self.run.folder),
            "equal": self.review.equal,
            "new": new,
            "causes": causes,
            "items": items,
        }

    # Accepting --------------------------------------------------------------------------------------------------------

    def accept(self, words: Sequence[str]) -> int:
        """Accepts causes, cases and items by name. An item that also has another cause waits for that cause."""
        numbers: set[int] = set()
        named: list[ChangedItem] = []
        for word in words:
            causes = self._cause_numbers(word)
            if causes is None:
                named += self._differing_items(word)
            else:
                numbers.update(causes)
        for number in sorted(numbers):
            print(f"cause {number}: {overview.cause_line(self.review.causes[number - 1])}")
        accepted, waiting = self.review.items_of_causes(numbers)
        accepted += [each for each in named if each.name not in {other.name for other in accepted}]
        names = {each.name for each in accepted}
        waiting = {name: causes for name, causes in waiting.items() if name not in names}
        return self._store(accepted, waiting, self.review.new if {"new", "all"} & set(words) else [])

    def causes_named(self, text: str) -> list[Cause]:
        """The causes of a list of numbers and ids, in their order; "" names all. Raises ReviewError."""
        numbers: set[int] = set()
        for word in filter(None, text.split(",")):
            found = self._cause_numbers(word)
            if not found:
                raise ReviewError(f"--causes {word}: no such cause; `python -m conformance review --list` lists them")
            numbers.update(found)
        return [cause for number, cause in enumerate(self.review.causes, 1) if number in numbers or not text]

    def _cause_numbers(self, word: str) -> list[int] | None:
        """Returns the causes that a word names; None if it has to be a case or an item. Raises ReviewError."""
        causes = self.review.causes
        if word == "all":
            return list(range(1, len(causes) + 1))
        if word == "new":
            return []
        if word.isdecimal() and len(word) < 6:
            if not 1 <= int(word) <= len(causes):
                raise ReviewError(f"there is no cause {word}: this run has {pluralise(len(causes), 'cause')}")
            return [int(word)]
        return [number for number, cause in enumerate(causes, 1) if cause.id == word] or None

    def _differing_items(self, word: str) -> list[ChangedItem]:
        items = [each for each in self.review.changed_items.values() if word in (each.item.case, each.name)]
        if not items:
            raise ReviewError(
                f"{word!r} is no cause, case or item that differs; `python -m conformance review --list` lists the "
                "causes, and with `--by case` the cases"
            )
        return items

    def _store(
        self, accepted: Sequence[ChangedItem], waiting: dict[str, list[int]], new: Sequence[ItemRecord] = ()
    ) -> int:
        """Stores items, and prints what was stored, what was refused, and what waits for another cause."""
        if not self.can_accept:
            return 0
        lines, all_stored = store_items(self.run, accepted, waiting, self.store, new)
        print("\n".join(lines))
        return int(not all_stored)

    # Asking -----------------------------------------------------------------------------------------------------------

    def ask_for_each(self, by: str) -> int:
        """Asks for each cause, or for each case. Stores at the end or at `quit`."""
        if not self.review.causes:
            print("\n".join(self.listing(by)))
            return 0
        print(overview.headline(self.review))
        return self._ask_for_cases() if by == "case" else self._ask_for_causes()

    def _ask_for_causes(self) -> int:
        accepted: set[int] = set()
        for number, cause in enumerate(self.review.causes, 1):
            answer = self._ask(self._cause_lines(number), self.review.members(number))
            if answer == "quit":
                break
            if answer == "accept":
                accepted.add(number)
                self.rejected.pop(cause.id, None)
            elif answer == "reject":
                self.rejected[cause.id] = cause.title
        with contextlib.suppress(OSError):  # a run may be in a folder that is read-only: then nothing is remembered
            write_rejected(self.run, self.rejected)
        status = self._store(*self.review.items_of_causes(accepted)) if accepted else 0
        rejected = [cause for cause in self.review.causes if cause.id in self.rejected]
        if rejected:
            print(f"rejected: {len(rejected)} of {len(self.review.causes)} causes; their items were not stored")
        return max(status, int(bool(rejected)))

    def _ask_for_cases(self) -> int:
        accepted: list[ChangedItem] = []
        rejected = 0
        cases = review.changes_by_case(self.review)
        for number, (case, items) in enumerate(cases.items(), 1):
            answer = self._ask(self._case_lines(f"case {number} of {len(cases)}: {case}", items), items)
            if answer == "quit":
                break
            if answer == "accept":
                accepted += items
            rejected += answer == "reject"
        status = self._store(accepted, {}) if accepted else 0
        if rejected:
            print(f"rejected: {rejected} of {len(cases)} cases")
        return max(status, int(rejected > 0))

    def _cause_lines(self, number: int) -> list[str]:
        cause = self.review.causes[number - 1]
        rejected = " (rejected before)" if cause.id in self.rejected else ""
        title = f"cause {number} of {len(self.review.causes)}: {cause.title}"
        lines = [heading(title) + rejected, f"  {cause.reach}", *(f"  {line}" for line in self._function_lines(cause))]
        lines += [f"  {line}" for line in overview.consequence_lines(cause, MAX_CONSEQUENCES)]
        if fails := sum(member.numerics_fail for member in self.review.members(number)):
            lines.append(styled(f"  numerics fail for {fails} of them: those will not be stored", "red"))
        others = {n for member in cause.members for n in self.review.causes_of[member.name]} - {number}
        if others:
            lines.append(f"  its texts also have {overview.cause_numbers(sorted(others))}")
        lines += ["", *(f"  {line}" for line in overview.place_lines(cause))]
        return lines + [f"  {diff_line(overview.shorten(line, 160))}" for line in cause.example.hunk]

    def _case_lines(self, title: str, items: Sequence[ChangedItem]) -> list[str]:
        """Returns the diff of each distinct change once, under the targets that it is for."""
        lines = [heading(title)]
        distinct: dict[tuple[str, ...], list[ChangedItem]] = {}
        for each in items:
            difference = each.difference
            key = (*difference.facts, *difference.diff) if difference else ()
            distinct.setdefault(key, []).append(each)
        for same in distinct.values():
            fails = " (numerics fail: will not be stored)" if any(each.numerics_fail for each in same) else ""
            lines.append(f"  on {', '.join(each.item.target for each in same)}{fails}:")
            lines += _difference_lines(same[0].difference)
        return lines

    def _ask(self, lines: Sequence[str], items: Sequence[ChangedItem]) -> str:
        """Returns the answer, a value of _KEYS. At `diff` it prints the whole diff of the next item and asks again."""
        print("\n" + "\n".join(lines))
        remaining = iter(items)
        answers = list(_KEYS.values()) if self.can_accept else ["skip", "diff", "quit"]
        prompt = f"\n{', '.join(f'[{answer[0]}]{answer[1:]}' for answer in answers)}? "
        while True:
            answer = _KEYS.get(_pressed_key(prompt), "")
            if answer == "diff":
                each = next(remaining, None)
                print("\n".join([f"\n{each.name}", *_difference_lines(each.difference)]) if each else "\nno more items")
            elif answer in answers:
                return answer


def _difference_lines(difference: review.Difference | None) -> list[str]:
    if difference is None:
        return []
    facts = ["facts changed:", *difference.facts] if difference.facts else ["facts unchanged"]
    return [
        *(f"    {line}" for fact in facts for line in fact.split("\n")),
        *(f"    {diff_line(line)}" for line in difference.diff),
    ]


def _pressed_key(prompt: str) -> str:
    """Returns one key, in lower case. A terminal needs no Return key; the end of the input is `q`."""
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
