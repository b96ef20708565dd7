"""Groups changed texts by the edit that changed them, across cases, kernels and targets.

    groups = group_changes([ChangedText("flip/hflip-224-u8", "cuda_sm90", stored, new), …])

A text with two edits is in two groups. Each changed fact is a group too; these groups come first.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from conformance.devices.targets import targets
from conformance.facts import changed_facts
from conformance.normalize.text import parse_facts
from conformance.review.causes import ChangedText, Example, join_targets, pluralise
from conformance.review.edits.edit import Edit, EditKey, added_and_removed, code_edits
from conformance.storage.snapshots import canonical_text

Kind = Literal["fact", "code"]


@dataclass
class Group:
    """All texts that one edit changes.

    `id`: equal for the same edit in another run. `kind`: whether the edit changes a fact or code. `members`: the
    changed texts, in the order of the input. `kernels`: the number of kernels, calls and graphs that it changes.
    `facts`: the facts that changed in the members, each with its number of members, most frequent first. `within`: the
    id of a group with a larger change (a fact, or a whole kernel) that contains all members; "" for none.
    """

    id: str
    kind: Kind
    title: str
    members: list[ChangedText]
    kernels: int
    example: Example
    facts: list[tuple[str, int]] = field(default_factory=list)
    within: str = ""

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(member.case for member in self.members))

    @property
    def targets(self) -> list[str]:
        names = {member.target for member in self.members}
        return [*(name for name in targets() if name in names), *sorted(names - set(targets()))]

    @property
    def reach(self) -> str:
        """What the edit changes: "312 kernels, 40 cases, on cpu_avx2 and cuda_sm90"."""
        kernels = [pluralise(self.kernels, "kernel")] if self.kernels else []
        return ", ".join([*kernels, pluralise(len(self.cases), "case"), f"on {join_targets(self.targets)}"])


def group_changes(changes: Iterable[ChangedText]) -> list[Group]:
    """Returns the groups: facts, then code, each sorted by size. Leaves out texts that did not change."""
    edits: dict[tuple[Kind, EditKey], _EditPlaces] = {}
    facts: dict[ChangedText, list[str]] = {}
    sites: dict[EditKey, set[_Site]] = defaultdict(set)
    for item in changes:
        stored, new = canonical_text(item.stored), canonical_text(item.new)
        if stored == new:
            continue
        facts[item] = []
        for fact in fact_edits(stored, new):
            facts[item].append(fact.title)
            edits.setdefault(("fact", fact.key), _EditPlaces()).add(item, fact)
        for edit in code_edits(stored, new):
            edits.setdefault(("code", edit.key), _EditPlaces()).add(item, edit)
            sites[edit.key].add((stored, new, edit.part, edit.site))
    merged = _merge_edits_of_same_sites(edits, sites)
    groups = [_group(kind, key, places, facts) for (kind, key), places in merged.items()]
    _set_within(groups)
    order = {"fact": 0, "code": 1}
    return sorted(groups, key=lambda each: (order[each.kind], -len(each.members), -each.kernels, each.title))


def _set_within(groups: Sequence[Group]) -> None:
    """Sets `within`: an edit that occurs only in texts with a larger change says little by itself."""
    larger = [each for each in groups if each.kind == "fact" or _WHOLE.match(each.title)]
    larger.sort(key=lambda each: (len(each.members), each.kind != "fact", each.id))
    sets = {each.id: frozenset(each.members) for each in groups}
    for each in groups:
        if each in larger:
            continue
        containing = (other for other in larger if sets[each.id] <= sets[other.id])
        each.within = next((other.id for other in containing), "")


_WHOLE = re.compile(r"(?:added|removed|rewritten): an? .*kernel")


#: (old text, new text, part, line pair): where an edit changes a text.
_Site = tuple[str, str, str, int]


@dataclass
class _EditPlaces:
    """One edit: its texts, and the edits that change exactly the same sites."""

    places: list[tuple[ChangedText, Edit]] = field(default_factory=list)
    companions: list[_EditPlaces] = field(default_factory=list)

    def add(self, item: ChangedText, edit: Edit) -> None:
        self.places.append((item, edit))

    @property
    def title(self) -> str:
        """The title of the edit; without names and numbers if these differ between its places."""
        titles = list(dict.fromkeys(self._titles(item, edit) for item, edit in self.places))
        return titles[0][0] if len(titles) == 1 else titles[0][1]

    def _titles(self, item: ChangedText, edit: Edit) -> tuple[str, str]:
        others = [
            other
            for companion in self.companions
            for where, other in companion.places
            if where == item and (other.part, other.site) == (edit.part, edit.site)
        ]
        spans = [other.span for other in others if other.span]
        if edit.span and spans and len(spans) == len(others):
            return edit.span.union(spans).titles()
        more = f"; {len(others) - 1} more" if len(others) > 1 else ""
        titles = ["; ".join([edit.title, *(other.title for other in others[:1])]) + more]
        return titles[0], "; ".join([edit.abstract, *(other.abstract for other in others[:1])]) + more


def _merge_edits_of_same_sites(
    edits: dict[tuple[Kind, EditKey], _EditPlaces], sites: dict[EditKey, set[_Site]]
) -> dict[tuple[Kind, EditKey], _EditPlaces]:
    """Merges edits that change exactly the same sites, such as a renamed function and its removed argument."""
    leaders: dict[frozenset[_Site], tuple[Kind, EditKey]] = {}
    merged: dict[tuple[Kind, EditKey], _EditPlaces] = {}
    for (kind, key), places in edits.items():
        if kind == "code":
            leader = leaders.setdefault(frozenset(sites[key]), (kind, key))
            if leader != (kind, key):
                merged[leader].companions.append(places)
                continue
        merged[kind, key] = places
    return merged


def _group(kind: Kind, key: EditKey, edit_places: _EditPlaces, facts: dict[ChangedText, list[str]]) -> Group:
    members = list(dict.fromkeys(item for item, _ in edit_places.places))
    kernels = {(item, edit.part) for item, edit in edit_places.places} if kind == "code" else set()
    item, edit = min(edit_places.places, key=lambda place: len(place[0].new))
    changed = Counter(fact for member in members for fact in facts[member]) if kind == "code" else Counter()
    digest = hashlib.sha256(repr((kind, key)).encode()).hexdigest()[:6]
    return Group(
        digest,
        kind,
        edit_places.title,
        members,
        len(kernels),
        Example(item, edit.part, edit.hunk),
        changed.most_common(),
    )


def fact_edits(stored: str, new: str) -> list[Edit]:
    """Returns one edit for each fact that changed."""
    old, now = parse_facts(stored), parse_facts(new)
    edits = []
    for name in [*now, *(name for name in old if name not in now)]:
        before, after = old.get(name, "not known"), now.get(name, "not known")
        if before == after:
            continue
        entry = "\n".join(changed_facts({name: before}, {name: after})).split("\n")
        heads = [_head(name, value) for value in (before, after)]
        change = f"{heads[0]} → {heads[1]}" if heads[0] != heads[1] else _changed_words(before, after)
        title = f"{name}  {change}"
        edits.append(Edit((title,), title, title, "", 0, tuple(entry)))
    return edits


def _head(name: str, value: str) -> str:
    """Returns the value before a colon, `yes` of `yes: along x0`, or the number of kernels; else the first line."""
    return re.split(r"[:\n ]" if name == "kernels" else r"[:\n]", value, maxsplit=1)[0]


def _changed_words(before: str, after: str) -> str:
    """Returns which words a fact's new value adds and removes: "added `gt`, removed `ge`"."""
    words = [Counter(re.findall(r"(?<![\w.])[A-Za-z_][\w.]*", text)) for text in (before, after)]
    removed, added = (sorted((a - b).elements()) for a, b in (words, words[::-1]))
    if removed or added:
        return added_and_removed(added, removed)
    numbers = [sorted(re.findall(r"\d+", text)) for text in (before, after)]
    return "order changed" if numbers[0] == numbers[1] else "sizes changed"
