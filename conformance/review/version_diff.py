"""Compares the stored texts of two torch versions, and finds the causes of their differences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from conformance.devices.targets import Target
from conformance.review.causes import Cause, ChangedText, find_causes
from conformance.review.overview import consequence_lines
from conformance.review.symptoms import text_symptoms
from conformance.storage.snapshots import Snapshot, Store, torch_release
from conformance.words import pluralise

MAX_TITLE_LENGTH = 150  # characters
MAX_EXAMPLE_LINES = 10
#: The page lists so many causes at its top, each with an example further down, and the others at its end.
MAX_CAUSES = 40
#: The details of a cause name so many of its consequences.
MAX_CONSEQUENCES = 5


@dataclass
class DeviceCounts:
    """Counts of texts of one device type: stored for both versions, different, and with different facts."""

    both: int = 0
    differ: int = 0
    facts: int = 0


@dataclass
class VersionDiff:
    """What changed from version `old` ("2.13") to `new` ("2.15").

    `only`: version → number of texts that are stored for it only. `cases`: number of cases with texts of both versions.
    `rewritten`: assertion → number of changed texts that contain it in one version only. See split_grouped_assertions.
    """

    old: str
    new: str
    devices: dict[str, DeviceCounts] = field(default_factory=dict)
    only: dict[str, int] = field(default_factory=dict)
    cases: int = 0
    cases_differ: int = 0
    rewritten: dict[str, int] = field(default_factory=dict)
    causes: list[Cause] = field(default_factory=list)

    @property
    def both(self) -> int:
        return sum(device.both for device in self.devices.values())

    @property
    def differ(self) -> int:
        return sum(device.differ for device in self.devices.values())


def compare_versions(stores: Iterable[Store], old: str, new: str, targets: Sequence[Target]) -> VersionDiff:
    """Compares the stored texts of `targets`. Raises SnapshotError for a file that cannot be read."""
    diff = VersionDiff(torch_release(old), torch_release(new))
    diff.only = {diff.old: 0, diff.new: 0}
    changes: list[ChangedText] = []
    for store in stores:
        for case in store.cases():
            snapshot = store.read(case) or Snapshot()
            changes_before, both_before = len(changes), diff.both
            for target in targets:
                before, after = (snapshot.text(version, target.name) for version in (diff.old, diff.new))
                if before and after:
                    change = ChangedText(case, target.name, before, after)
                    _count(diff, change, target.device)
                    changes += [change] if before != after else []
                elif before or after:
                    diff.only[diff.old if before else diff.new] += 1
            diff.cases += diff.both > both_before
            diff.cases_differ += len(changes) > changes_before
    diff.causes = find_causes(map(_with_split_assertions, changes))
    for name in (_GROUPED, "assert_tensor_metadata("):
        diff.rewritten[name] = sum((name in change.stored) != (name in change.new) for change in changes)
    return diff


_GROUPED = "assert_size_stride_grouped("
_WITH_DTYPE = re.compile(r"\bassert_tensor_metadata\((\w+, \([^()]*\), \([^()]*\)), torch\.\w+(?=[,)])")


def _with_split_assertions(change: ChangedText) -> ChangedText:
    return replace(change, stored=split_grouped_assertions(change.stored), new=split_grouped_assertions(change.new))


def split_grouped_assertions(text: str) -> str:
    """Writes the assertions of torch 2.15 as older versions did: one `assert_size_stride` for each tensor.

    `assert_size_stride_grouped((a, b), (s, t), (u, v), 'in')` becomes `assert_size_stride(a, s, u, 'in')` and
    `assert_size_stride(b, t, v, 'in')`. `assert_tensor_metadata(a, s, u, torch.float32, 'op')`, which also asserts a
    dtype, becomes `assert_size_stride(a, s, u, 'op')`. Without this, the new spelling would be a cause for each number
    of tensors.
    """
    text = re.sub(rf"^( *)({re.escape(_GROUPED)}.*\))$", _split_assertion, text, flags=re.MULTILINE)
    return _WITH_DTYPE.sub(r"assert_size_stride(\1", text)


def _split_assertion(match: re.Match[str]) -> str:
    code = match[2]
    try:
        call = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError):
        return match[0]
    arguments = call.args if isinstance(call, ast.Call) else []
    tuples = [each for each in arguments if isinstance(each, ast.Tuple)][:3]
    if len(tuples) < 3 or len({len(each.elts) for each in tuples}) != 1:
        return match[0]
    rest = "".join(f", {ast.get_source_segment(code, each)}" for each in arguments[3:])
    rows = zip(*(each.elts for each in tuples), strict=True)
    texts = [", ".join(ast.get_source_segment(code, each) or "" for each in row) for row in rows]
    return "\n".join(f"{match[1]}assert_size_stride({each}{rest})" for each in texts)


def _count(diff: VersionDiff, change: ChangedText, device: str) -> None:
    counts = diff.devices.setdefault(device, DeviceCounts())
    counts.both += 1
    if change.stored != change.new:
        counts.differ += 1
        counts.facts += bool(text_symptoms(change.stored, change.new).facts)


def count_table(diff: VersionDiff) -> list[tuple[str, ...]]:
    """Returns the header, a row for each device type, and the totals."""
    rows: list[tuple[str, ...]] = [("", "texts", "differ", "facts differ", "causes")]
    for name, device in diff.devices.items():
        causes = sum(any(target.startswith(f"{name}_") for target in each.targets) for each in diff.causes)
        rows.append((name, *map(str, (device.both, device.differ, device.facts, causes))))
    facts = sum(device.facts for device in diff.devices.values())
    return [*rows, ("all", *map(str, (diff.both, diff.differ, facts, len(diff.causes))))]


def version_diff_page(diff: VersionDiff, *, markdown: bool) -> list[str]:
    """Returns the lines of the page: counts, the list of the largest causes, their details, and the smaller causes."""
    stored = f"{diff.both} texts of {diff.cases} cases are stored for both versions"
    differ = f"{diff.differ} texts of {diff.cases_differ} cases differ"
    lines = [f"# Generated code, torch {diff.old} → {diff.new}", "", f"{stored}; {differ}."]
    lines += [f"{count} texts are stored for {version} only." for version, count in diff.only.items() if count]
    for name, texts in diff.rewritten.items():
        if texts:
            lines.append(
                f"{texts} of the differing texts contain `{name}…)` in one version only. "
                "This page treats it as `assert_size_stride(…)`."
            )
    lines += ["", *(_markdown(count_table(diff)) if markdown else _columns(count_table(diff)))]
    largest, smaller = diff.causes[:MAX_CAUSES], diff.causes[MAX_CAUSES:]
    lines += ["", f"## Causes: {len(diff.causes) or 'no change'}", ""]
    lines += [f"{number}. {_line(each)}" for number, each in enumerate(largest, 1)]
    if smaller:
        count = pluralise(len(smaller), "smaller cause")
        lines += [
            f"{len(largest) + 1}. {count}, each of at most {pluralise(len(smaller[0].members), 'text')}, at the end"
        ]
    lines += ["", "## Details"] if largest else []
    for number, each in enumerate(largest, 1):
        lines += _section(number, each, markdown)
    lines += ["", "## Smaller causes", "", *(f"- {_line(each)}" for each in smaller)] if smaller else []
    return lines


def _line(cause: Cause) -> str:
    return f"{_cut_title(cause.title)} ({pluralise(len(cause.members), 'text')}: {cause.reach})"


def _cut_title(title: str) -> str:
    return title if len(title) <= MAX_TITLE_LENGTH else f"{title[:MAX_TITLE_LENGTH]} …"


def _section(number: int, cause: Cause, markdown: bool) -> list[str]:
    """Returns the section of a cause: what it changes, an example, and its most frequent consequences."""
    where = f", {cause.example.where}" if cause.example.where else ""
    lines = ["", f"### {number}. {_cut_title(cause.title)}", ""]
    texts = pluralise(len(cause.members), "text")
    lines.append(f"{texts}: {cause.reach}. For example {cause.example.item.name}{where}:")
    hunk = list(cause.example.hunk[:MAX_EXAMPLE_LINES])
    more = len(cause.example.hunk) - MAX_EXAMPLE_LINES
    hunk += [f"… {pluralise(more, 'more line')}"] if more > 0 else []
    if hunk:
        lines += ["", "```diff", *hunk, "```"] if markdown else ["", *(f"    {line}" for line in hunk)]
    if cause.consequences:
        lines += ["", *(f"- {line}" for line in consequence_lines(cause, MAX_CONSEQUENCES))]
    return lines


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *body]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
