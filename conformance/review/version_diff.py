"""Compares the stored texts of two torch versions: facts and code, grouped by edit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from conformance.devices.targets import Target
from conformance.review.causes import ChangedText, pluralise
from conformance.review.groups import Group, fact_edits, group_changes
from conformance.storage.snapshots import Snapshot, Store, torch_release

MAX_TITLE_LENGTH = 150  # characters
MAX_EXAMPLE_LINES = 10
#: The page shows so many groups of code with an example, and a line for each of the others.
MAX_CODE_EXAMPLES = 20
#: The page names so many groups of code that change only texts with changed facts.
MAX_FOLLOWING = 15


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
    groups: list[Group] = field(default_factory=list)

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
    diff.groups = group_changes(map(_with_split_assertions, changes))
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
    dtype, becomes `assert_size_stride(a, s, u, 'op')`. Without this, the new spelling would be an edit for each number
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
        counts.facts += bool(fact_edits(change.stored, change.new))


def count_table(diff: VersionDiff) -> list[tuple[str, ...]]:
    """Returns the header, a row for each device type, and the totals."""
    rows: list[tuple[str, ...]] = [("", "texts", "differ", "facts differ", "groups of facts", "groups of code")]
    for name, device in diff.devices.items():
        groups = [each for each in diff.groups if any(target.startswith(f"{name}_") for target in each.targets)]
        rows.append((name, *map(str, (device.both, device.differ, device.facts, *_group_counts(groups)))))
    facts = sum(device.facts for device in diff.devices.values())
    return [*rows, ("all", *map(str, (diff.both, diff.differ, facts, *_group_counts(diff.groups))))]


def _group_counts(groups: Sequence[Group]) -> tuple[int, int]:
    """Returns the number of groups of facts, and of code."""
    facts = sum(each.kind == "fact" for each in groups)
    return facts, len(groups) - facts


def version_diff_page(diff: VersionDiff, *, markdown: bool) -> list[str]:
    """Returns the lines of the page: counts, then groups of facts, then groups of code, each sorted by size.

    Groups of the same items share one section. Groups that change only texts with changed facts come last, without
    examples.
    """
    stored = f"{diff.both} texts of {diff.cases} cases are stored for both versions"
    differ = f"{diff.differ} texts of {diff.cases_differ} cases differ"
    lines = [f"# Generated code, torch {diff.old} → {diff.new}", "", f"{stored}; {differ}."]
    lines += [f"{count} texts are stored for {version} only." for version, count in diff.only.items() if count]
    for name, count in diff.rewritten.items():
        if count:
            lines.append(
                f"{count} of the differing texts contain `{name}…)` in one version only. "
                "This page treats it as `assert_size_stride(…)`."
            )
    lines += ["", *(_markdown(count_table(diff)) if markdown else _columns(count_table(diff)))]
    facts, code = ([each for each in diff.groups if each.kind == kind] for kind in ("fact", "code"))
    lines += ["", f"## Facts: {_group_count(facts)}"]
    for number, each in enumerate(facts, 1):
        lines += _section(number, [each], markdown)
    with_changed_facts = {member.name for each in facts for member in each.members}
    following = [each for each in code if all(member.name in with_changed_facts for member in each.members)]
    same_items: dict[frozenset[str], list[Group]] = {}
    for each in code:
        if each not in following:
            same_items.setdefault(frozenset(member.name for member in each.members), []).append(each)
    lines += ["", f"## Code: {_group_count(code)}"]
    for number, groups in enumerate(same_items.values(), 1):
        if number <= MAX_CODE_EXAMPLES:
            lines += _section(number, groups, markdown)
        else:
            lines += ["", "### Smaller groups", ""] if number == MAX_CODE_EXAMPLES + 1 else []
            lines += [_bullet(each) for each in groups]
    if following:
        lines += ["", f"### Only in texts whose facts changed: {_group_count(following)}", ""]
        lines += map(_bullet, following[:MAX_FOLLOWING])
    if len(following) > MAX_FOLLOWING:
        lines.append(f"- and {len(following) - MAX_FOLLOWING} smaller groups")
    return lines


def _group_count(groups: Sequence[Group]) -> str:
    return pluralise(len(groups), "group") if groups else "no change"


def _bullet(group: Group) -> str:
    return f"- {_cut_title(group.title)} ({group.reach})"


def _cut_title(title: str) -> str:
    return title if len(title) <= MAX_TITLE_LENGTH else f"{title[:MAX_TITLE_LENGTH]} …"


def _section(number: int, groups: Sequence[Group], markdown: bool) -> list[str]:
    """Returns the section of groups of the same items: the first with its example, the others by their titles."""
    group = groups[0]
    where = f", {group.example.where}" if group.example.where else ""
    lines = ["", f"### {number}. {_cut_title(group.title)}", ""]
    lines.append(f"{group.reach}. For example {group.example.item.name}{where}:")
    hunk = list(group.example.hunk[:MAX_EXAMPLE_LINES])
    more = len(group.example.hunk) - MAX_EXAMPLE_LINES
    hunk += [f"… {more} more lines"] if more > 0 else []
    if hunk:
        lines += ["", "```diff", *hunk, "```"] if markdown else ["", *(f"    {line}" for line in hunk)]
    if groups[1:]:
        lines += ["", f"The same {len(group.members)} texts also differ by:", ""]
        lines += [f"- {_cut_title(other.title)}" for other in groups[1:]]
    return lines


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *body]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
