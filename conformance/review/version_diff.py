"""What changed between two releases of torch, from what is stored: texts, facts and code, grouped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from conformance.devices.targets import Target
from conformance.review.groups import Changed, Group, fact_edits, group
from conformance.storage.snapshots import Store, release

WIDEST = 150  # characters of a title
LONGEST = 10  # lines of an example
#: Of code, so many edits are shown whole; of the smaller ones, a line each.
SHOWN = 20
#: Edits that are made only where facts changed: so many are named.
FOLLOWING = 15


@dataclass
class Device:
    """Texts of one device type: in both versions, of these those that differ, and those whose facts differ."""

    both: int = 0
    differ: int = 0
    facts: int = 0


@dataclass
class Versions:
    """`old`, `new`: "2.13", "2.15". `only`: version → texts that the other lacks. `cases`: with texts in both.

    `respelled`: what else asserts sizes → texts of one version alone that call it.
    """

    old: str
    new: str
    devices: dict[str, Device] = field(default_factory=dict)
    only: dict[str, int] = field(default_factory=dict)
    cases: int = 0
    cases_differ: int = 0
    respelled: dict[str, int] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    @property
    def both(self) -> int:
        return sum(device.both for device in self.devices.values())

    @property
    def differ(self) -> int:
        return sum(device.differ for device in self.devices.values())


def compared(stores: Iterable[Store], old: str, new: str, targets: Sequence[Target]) -> Versions:
    """Texts of `targets`; raises SnapshotError for a file that cannot be read."""
    found = Versions(release(old), release(new))
    found.only = {found.old: 0, found.new: 0}
    changed: list[Changed] = []
    for store in stores:
        for case in store.cases():
            snapshot = store.read(case)
            differ, both = len(changed), found.both
            for target in targets:
                before, after = (snapshot.text(version, target.name) for version in (found.old, found.new))
                if before and after:
                    changed += _counted(found, Changed(case, target.name, before, after), target.device)
                elif before or after:
                    found.only[found.old if before else found.new] += 1
            found.cases += found.both > both
            found.cases_differ += len(changed) > differ
    found.groups = group([_singly(change) for change in changed])
    for name in (_GROUPED, "assert_tensor_metadata("):
        found.respelled[name] = sum((name in change.stored) != (name in change.new) for change in changed)
    return found


_GROUPED = "assert_size_stride_grouped("
_WITH_DTYPE = re.compile(r"\bassert_tensor_metadata\((\w+, \([^()]*\), \([^()]*\)), torch\.\w+(?=[,)])")


def _singly(change: Changed) -> Changed:
    """With an assertion a line, as before torch 2.15: so one change is not one for each number of arguments."""
    return replace(change, stored=one_by_one(change.stored), new=one_by_one(change.new))


def one_by_one(text: str) -> str:
    """`assert_size_stride_grouped((a, b), (s, t), (u, v), 'in')` as `assert_size_stride(a, s, u, 'in')` and b's.

    Likewise `assert_tensor_metadata(a, s, u, torch.float32, 'op')`, which asserts a dtype, too.
    """
    text = re.sub(rf"^( *)({re.escape(_GROUPED)}.*\))$", _one_by_one, text, flags=re.MULTILINE)
    return _WITH_DTYPE.sub(r"assert_size_stride(\1", text)


def _one_by_one(match: re.Match[str]) -> str:
    code = match[2]
    try:
        names, *given = ast.parse(code).body[0].value.args
    except (SyntaxError, ValueError, AttributeError):
        return match[0]
    listed = [each for each in (names, *given) if isinstance(each, ast.Tuple)][:3]
    if len(listed) < 3 or len({len(each.elts) for each in listed}) != 1:
        return match[0]
    rest = "".join(f", {ast.get_source_segment(code, each)}" for each in given[2:])
    rows = zip(*(each.elts for each in listed), strict=True)
    said = [", ".join(ast.get_source_segment(code, each) or "" for each in row) for row in rows]
    return "\n".join(f"{match[1]}assert_size_stride({each}{rest})" for each in said)


def _counted(found: Versions, change: Changed, device: str) -> list[Changed]:
    counts = found.devices.setdefault(device, Device())
    counts.both += 1
    if change.stored == change.new:
        return []
    counts.differ += 1
    counts.facts += bool(fact_edits(change.stored, change.new))
    return [change]


def table(found: Versions) -> list[tuple[str, ...]]:
    """Head, a row a device, and all of them."""
    rows = [("", "texts", "differ", "facts differ", "groups of facts", "groups of code")]
    for name, device in found.devices.items():
        mine = [each for each in found.groups if any(target.startswith(f"{name}_") for target in each.targets)]
        rows.append((name, *map(str, (device.both, device.differ, device.facts, *_kinds(mine)))))
    facts = sum(device.facts for device in found.devices.values())
    return [*rows, ("all", *map(str, (found.both, found.differ, facts, *_kinds(found.groups))))]


def _kinds(groups: Sequence[Group]) -> tuple[int, int]:
    facts = sum(each.kind == "fact" for each in groups)
    return facts, len(groups) - facts


def page(found: Versions, *, markdown: bool) -> list[str]:
    """Counts, then the groups: facts first, the largest first, with an example each.

    Edits that are made in the same items stand together; those that are made only where facts changed are named alone.
    """
    stored = f"{found.both} texts of {found.cases} cases are stored for both"
    said = f"{stored}; {found.differ} texts of {found.cases_differ} cases differ."
    lines = [f"# Generated code, torch {found.old} → {found.new}", "", said]
    lines += [f"{count} are stored for {version} only." for version, count in found.only.items() if count]
    for name, count in found.respelled.items():
        if count:
            lines.append(
                f"{count} of them have `{name}…)` in one version only; below it is read as `assert_size_stride(…)`."
            )
    lines += ["", *(_markdown(table(found)) if markdown else _columns(table(found)))]
    facts, code = ([each for each in found.groups if each.kind == kind] for kind in ("fact", "code"))
    lines += ["", f"## Facts: {_counted_groups(facts)}"]
    for number, each in enumerate(facts, 1):
        lines += _shown(number, [each], markdown)
    changed = {member.name for each in facts for member in each.members}
    follows = [each for each in code if all(member.name in changed for member in each.members)]
    together: dict[frozenset[str], list[Group]] = {}
    for each in code:
        if each not in follows:
            together.setdefault(frozenset(member.name for member in each.members), []).append(each)
    lines += ["", f"## Code: {_counted_groups(code)}"]
    for number, alike in enumerate(together.values(), 1):
        if number <= SHOWN:
            lines += _shown(number, alike, markdown)
        else:
            lines += ["", "### Smaller ones", ""] if number == SHOWN + 1 else []
            lines += [_line(each) for each in alike]
    if follows:
        lines += ["", f"### Only where facts changed: {_counted_groups(follows)}", "", *map(_line, follows[:FOLLOWING])]
    if len(follows) > FOLLOWING:
        lines.append(f"- and {len(follows) - FOLLOWING} smaller ones")
    return lines


def _counted_groups(groups: Sequence[Group]) -> str:
    return f"{len(groups)} group{'s' * (len(groups) != 1)}" if groups else "no change"


def _line(each: Group) -> str:
    return f"- {_cut(each.title)} ({each.reach})"


def _cut(title: str) -> str:
    return title if len(title) <= WIDEST else f"{title[:WIDEST]} …"


def _shown(number: int, alike: Sequence[Group], markdown: bool) -> list[str]:
    """Groups of the same items: the first with its example, the others by their titles."""
    each = alike[0]
    where = f"{each.example.item.name}{f', {each.example.where}' if each.example.where else ''}"
    lines = ["", f"### {number}. {_cut(each.title)}", "", f"{each.reach}. For example {where}:"]
    hunk = list(each.example.hunk[:LONGEST])
    more = len(each.example.hunk) - LONGEST
    hunk += [f"… {more} more lines"] if more > 0 else []
    if hunk:
        lines += ["", "```diff", *hunk, "```"] if markdown else ["", *(f"    {line}" for line in hunk)]
    if alike[1:]:
        lines += ["", f"In the same {len(each.members)} texts:", "", *(f"- {_cut(other.title)}" for other in alike[1:])]
    return lines


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *body]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
