"""Differences grouped by the edit that causes them, across cases, kernels and targets.

    groups = group([Changed("flip/hflip-224-u8", "cuda_sm90", stored, new), …])

A text that differs by two edits is in both groups. Facts that changed are groups of their own, and come first.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.devices.targets import targets
from conformance.facts import changed as changed_facts
from conformance.normalize.text import parse_facts
from conformance.review.edits.edit import Edit, EditKey, added_and_removed, code_edits
from conformance.storage.snapshots import canonical


@dataclass(frozen=True)
class Changed:
    """What a (case, target) gave before and gives now. `label`: what else tells it from others, such as a version."""

    case: str
    target: str
    stored: str
    new: str
    label: str = ""

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.case, self.target, self.label)))


@dataclass(frozen=True)
class Example:
    """One place of an edit: which item, where in its text, and a few lines of diff."""

    item: Changed
    where: str
    hunk: tuple[str, ...]


@dataclass
class Group:
    """One edit. `kind`: "fact" or "code"; `members`: the items that it is found in, in the order they were given.

    `kernels`: how many kernels, calls and graphs of the members it changes; `facts`: what else changed in the members,
    an entry a fact with the number of members, most first. `id`: the same for the same edit in another run.
    `within`: the id of a group of larger consequence, a fact or a whole kernel, that all members are in; "" for none.
    """

    id: str
    kind: str
    title: str
    members: list[Changed]
    kernels: int
    example: Example
    facts: list[tuple[str, int]] = field(default_factory=list)
    within: str = ""

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(member.case for member in self.members))

    @property
    def targets(self) -> list[str]:
        found = {member.target for member in self.members}
        return [*(name for name in targets() if name in found), *sorted(found - set(targets()))]

    @property
    def reach(self) -> str:
        """`312 kernels, 40 cases, on cpu_avx2 and cuda_sm90`."""
        kernels = [count(self.kernels, "kernel")] if self.kernels else []
        return ", ".join([*kernels, count(len(self.cases), "case"), f"on {shortened(self.targets)}"])


def group(differences: Iterable[Changed]) -> list[Group]:
    """The groups: facts first, then code; in each the largest first. Nothing for texts that are equal."""
    found: dict[tuple[str, EditKey], _Gathered] = {}
    facts: dict[Changed, list[str]] = {}
    sites: dict[EditKey, set[tuple[str, str, str, int]]] = defaultdict(set)
    for item in differences:
        stored, new = canonical(item.stored), canonical(item.new)
        if stored == new:
            continue
        facts[item] = []
        for fact in fact_edits(stored, new):
            facts[item].append(fact.title)
            found.setdefault(("fact", fact.key), _Gathered()).add(item, fact)
        for edit in code_edits(stored, new):
            found.setdefault(("code", edit.key), _Gathered()).add(item, edit)
            sites[edit.key].add((stored, new, edit.part, edit.site))
    groups = [_group(kind, key, gathered, facts) for (kind, key), gathered in _joined(found, sites).items()]
    _place(groups)
    order = {"fact": 0, "code": 1}
    return sorted(groups, key=lambda each: (order[each.kind], -len(each.members), -each.kernels, each.title))


def _place(groups: Sequence[Group]) -> None:
    """Sets `within`: an edit of kernels that all became other kernels says little by itself."""
    larger = [each for each in groups if each.kind == "fact" or _WHOLE.match(each.title)]
    larger.sort(key=lambda each: (len(each.members), each.kind != "fact", each.id))
    sets = {each.id: frozenset(each.members) for each in groups}
    for each in groups:
        if each in larger:
            continue
        holding = (other for other in larger if sets[each.id] <= sets[other.id])
        each.within = next((other.id for other in holding), "")


_WHOLE = re.compile(r"(?:added|removed|rewritten): an? .*kernel")


@dataclass
class _Gathered:
    places: list[tuple[Changed, Edit]] = field(default_factory=list)
    with_it: list[_Gathered] = field(default_factory=list)  # edits that are made nowhere else

    def add(self, item: Changed, edit: Edit) -> None:
        self.places.append((item, edit))

    @property
    def title(self) -> str:
        """As it is written in all places; without names and numbers where they differ."""
        titles = list(dict.fromkeys(self._titles(item, edit) for item, edit in self.places))
        return titles[0][0] if len(titles) == 1 else titles[0][1]

    def _titles(self, item: Changed, edit: Edit) -> tuple[str, str]:
        others = [
            other
            for gathered in self.with_it
            for where, other in gathered.places
            if where == item and (other.part, other.site) == (edit.part, edit.site)
        ]
        spans = [other.span for other in others if other.span]
        if edit.span and spans and len(spans) == len(others):
            return edit.span.union(spans).titles()
        more = f"; {len(others) - 1} more" if len(others) > 1 else ""
        titles = ["; ".join([edit.title, *(other.title for other in others[:1])]) + more]
        return titles[0], "; ".join([edit.abstract, *(other.abstract for other in others[:1])]) + more


def _joined(
    found: dict[tuple[str, EditKey], _Gathered], sites: dict[EditKey, set[tuple[str, str, str, int]]]
) -> dict[tuple[str, EditKey], _Gathered]:
    """Edits that are made at exactly the same places (a name replaced, and what followed it taken away) are one."""
    by_sites: dict[frozenset[tuple[str, str, str, int]], tuple[str, EditKey]] = {}
    joined: dict[tuple[str, EditKey], _Gathered] = {}
    for (kind, key), gathered in found.items():
        if kind == "code":
            leader = by_sites.setdefault(frozenset(sites[key]), (kind, key))
            if leader != (kind, key):
                joined[leader].with_it.append(gathered)
                continue
        joined[kind, key] = gathered
    return joined


def _group(kind: str, key: EditKey, gathered: _Gathered, facts: dict[Changed, list[str]]) -> Group:
    members = list(dict.fromkeys(item for item, _ in gathered.places))
    kernels = {(item, edit.part) for item, edit in gathered.places} if kind == "code" else set()
    item, edit = min(gathered.places, key=lambda place: len(place[0].new))
    changed = Counter(fact for member in members for fact in facts[member]) if kind == "code" else Counter()
    digest = hashlib.sha256(repr((kind, key)).encode()).hexdigest()[:6]
    return Group(
        digest,
        kind,
        gathered.title,
        members,
        len(kernels),
        Example(item, edit.part, edit.hunk),
        changed.most_common(),
    )


def fact_edits(stored: str, new: str) -> list[Edit]:
    """One for each fact that changed."""
    old, now = parse_facts(stored), parse_facts(new)
    made = []
    for name in [*now, *(name for name in old if name not in now)]:
        before, after = old.get(name, "not known"), now.get(name, "not known")
        if before == after:
            continue
        entry = "\n".join(changed_facts({name: before}, {name: after})).split("\n")
        heads = [_head(name, value) for value in (before, after)]
        differ = f"{heads[0]} → {heads[1]}" if heads[0] != heads[1] else _differing_words(before, after)
        title = f"{name}  {differ}"
        made.append(Edit((title,), title, title, "", 0, tuple(entry)))
    return made


def _head(name: str, value: str) -> str:
    """`yes` of `yes: along x0`, the number of kernels; the whole first line where it has no such word."""
    return re.split(r"[:\n ]" if name == "kernels" else r"[:\n]", value, maxsplit=1)[0]


def _differing_words(before: str, after: str) -> str:
    """What differs between two texts of a fact, numbers left out."""
    words = [Counter(re.findall(r"(?<![\w.])[A-Za-z_][\w.]*", text)) for text in (before, after)]
    gone, come = (sorted((a - b).elements()) for a, b in (words, words[::-1]))
    if gone or come:
        return added_and_removed(come, gone)
    numbers = [sorted(re.findall(r"\d+", text)) for text in (before, after)]
    return "order changed" if numbers[0] == numbers[1] else "sizes changed"


def shortened(names: Sequence[str]) -> str:
    """`cpu_avx2 and cuda_sm90`; devices alone where there are many."""
    named = list(names)
    if len(named) > 3:
        named = list(dict.fromkeys(name.partition("_")[0] for name in names))
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def count(number: int, word: str) -> str:
    """`1 text`, `2 texts`."""
    return f"{number} {word}{'s' * (number != 1)}"
