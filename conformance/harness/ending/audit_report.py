"""The end of a run with --audit: which opt-outs are idle, and what the others excuse.

`python -m conformance report --audit` joins several such runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.documentation import reference
from conformance.harness.item.audit import IDLE, NEEDED, NOT_JUDGED, ONLY_ON_DEVICE
from conformance.settings import option_name
from conformance.storage.runs import ItemRecord
from conformance.words import pluralise

#: Of several runs, the verdict that counts for a case on a target is the one that comes first here.
_STRONGEST = (NEEDED, IDLE, NOT_JUDGED)
#: A line names so many kinds of problems for each target, and a list so many cases.
_KINDS, _CASES = 2, 12

#: What tells one declaration from the others.
_NAMES = ("file", "function", "declaration", "reason")

#: Labels of a case → target → its entry of ItemRecord.audit.
Cases = dict[str, dict[str, Mapping[str, Any]]]


@dataclass
class _Declaration:
    """One opt-out as a file declares it, with all cases that have it."""

    file: str
    function: str
    declaration: str
    reason: str
    cases: Cases = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.file} {self.function}  {self.declaration}"

    @property
    def idle(self) -> list[str]:
        """Labels of the cases for which it excuses nothing on any target that could judge it."""
        return [labels for labels, entries in self.cases.items() if _is_idle(entries.values())]

    @property
    def needed(self) -> list[str]:
        """Labels of the cases for which it excuses something on some target."""
        return [labels for labels, entries in self.cases.items() if _has(entries.values(), NEEDED)]

    def targets(self, verdict: str) -> dict[str, list[Mapping[str, Any]]]:
        """Target → the entries with that verdict there."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for entries in self.cases.values():
            for target, entry in entries.items():
                if entry["verdict"] == verdict:
                    found.setdefault(target, []).append(entry)
        return dict(sorted(found.items()))

    def add(self, labels: str, target: str, entry: Mapping[str, Any]) -> None:
        """Adds the verdict of one item. One of another run stays if it is stronger."""
        entries = self.cases.setdefault(labels, {})
        before = entries.get(target)
        if before is None or _STRONGEST.index(entry["verdict"]) < _STRONGEST.index(before["verdict"]):
            entries[target] = entry

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "function": self.function,
            "declaration": self.declaration,
            "reason": self.reason,
            "idle": self.idle,
            "needed": self.needed,
            "cases": {
                labels: {
                    target: {key: entry[key] for key in ("verdict", "how", "excuses", "why")}
                    for target, entry in sorted(entries.items())
                }
                for labels, entries in self.cases.items()
            },
        }


@dataclass(frozen=True)
class AuditReport:
    """`lines`: for the end of the run. `data`: for the run's folder.

    `failed`: whether an opt-out is idle for all its cases.
    """

    lines: list[str]
    data: dict[str, Any]
    failed: bool


@dataclass
class _Audited:
    """All opt-outs of one run, or of several."""

    declarations: dict[tuple[str, ...], _Declaration] = field(default_factory=dict)
    ways: dict[str, set[str]] = field(default_factory=dict)

    def add(self, named: Mapping[str, Any], labels: str, target: str, entry: Mapping[str, Any]) -> None:
        """`named`: has the keys file, function, declaration and reason."""
        file, function, declaration, reason = (str(named[name]) for name in _NAMES)
        key = (file, function, declaration, reason)
        found = self.declarations.setdefault(key, _Declaration(file, function, declaration, reason))
        found.add(labels, target, entry)
        if entry["verdict"] != NOT_JUDGED:
            self.ways.setdefault(entry["how"], set()).add(target)


def audit_report(items: Iterable[ItemRecord]) -> AuditReport:
    """Sums up the opt-outs of all items of a run."""
    audited = _Audited()
    for item in items:
        for entry in item.audit:
            audited.add(entry, entry["labels"], item.target, entry)
    return _report(audited)


def joined_report(runs: Iterable[Mapping[str, Any]]) -> AuditReport:
    """Sums up the opt-outs of several runs: those with other seeds, torch versions, machines. `runs`: AuditReport.data.

    An opt-out that one of them needs is needed.
    """
    audited = _Audited()
    for data in runs:
        for declared in data["declarations"]:
            for labels, entries in declared["cases"].items():
                for target, entry in entries.items():
                    audited.add(declared, labels, target, entry)
    return _report(audited)


def _report(audited: _Audited) -> AuditReport:
    ways = audited.ways
    listed = [audited.declarations[names] for names in sorted(audited.declarations)]
    idle, needed = sum(len(each.idle) for each in listed), sum(len(each.needed) for each in listed)
    total = sum(len(each.cases) for each in listed)
    how = "; ".join(f"{way}: {', '.join(sorted(ways[way]))}" for way in ("native", "emulated") if way in ways)
    counts = f"{needed} needed, {idle} idle, {total - idle - needed} not judged"
    declared = pluralise(len(listed), "declaration")
    lines = [f"audit of opt-outs ({how or 'nothing ran'}): {declared}; over all cases {counts}"]
    if any(each.needed for each in listed):
        lines += ["needed opt-outs:", *(f"  {each.title}: {_needed_text(each)}" for each in listed if each.needed)]
    if unjudged := [each for each in listed if each.targets(NOT_JUDGED)]:
        lines += ["not judged:", *(f"  {each.title}: {_not_judged_text(each)}" for each in unjudged)]
    seed = option_name("seed")
    if partly := [each for each in listed if each.idle and each.needed]:
        lines += [
            f"idle for some cases; they may be needed on another torch or device, or with other values ({seed}):",
            *(f"  {each.title}: {_idle_text(each)}" for each in partly),
        ]
    if wholly := [each for each in listed if each.idle and not each.needed]:
        lines += [
            "audit failed, because these opt-outs excuse nothing; remove them or narrow their selector:",
            *(f"  {each.title}: {_idle_text(each)}" for each in wholly),
            f"how to read this: {reference('numerics', 'audit-of-opt-outs')}",
        ]
    data = {
        "targets": {way: sorted(each) for way, each in ways.items()},
        "declarations": [each.to_json() for each in listed],
    }
    return AuditReport(lines, data, bool(wholly))


def _is_idle(entries: Iterable[Mapping[str, Any]]) -> bool:
    found = list(entries)
    waits = any(entry["why"] == ONLY_ON_DEVICE for entry in found)
    return _has(found, IDLE) and not _has(found, NEEDED) and not waits


def _has(entries: Iterable[Mapping[str, Any]], verdict: str) -> bool:
    return any(entry["verdict"] == verdict for entry in entries)


def _idle_text(declared: _Declaration) -> str:
    """`idle for 3 of 8 cases (a, b, c), tried on cpu_avx2, cuda_sm90`."""
    idle = declared.idle
    tried = sorted({
        target for labels in idle for target, entry in declared.cases[labels].items() if entry["verdict"] == IDLE
    })  # fmt: skip
    names = [name for name in idle if name]
    shown = ", ".join(names[:_CASES]) + (f" and {len(names) - _CASES} more" if len(names) > _CASES else "")
    if len(idle) == len(declared.cases):
        which = "idle" if len(idle) == 1 else f"idle for all {len(idle)} cases"
    else:
        which = f"idle for {len(idle)} of {len(declared.cases)} cases ({shown})"
    return f"{which}, tried on {', '.join(tried)}"


def _needed_text(declared: _Declaration) -> str:
    """`needed on cuda_sm90 (3 of 5 cases: output values number → inf), idle on cpu_avx2, cpu_avx512`."""
    needed, idle = declared.targets(NEEDED), declared.targets(IDLE)
    parts = []
    for target, entries in needed.items():
        judged = len(entries) + len(idle.get(target, ()))
        count = str(judged) if judged == len(entries) else f"{len(entries)} of {judged}"
        noun = "case" if judged == 1 else "cases"
        parts.append(f"needed on {target} ({count} {noun}: {_kinds(entries)})")
    if rest := [target for target in idle if target not in needed]:
        parts.append(f"idle on {', '.join(rest)}")
    return ", ".join(parts)


def _kinds(entries: Sequence[Mapping[str, Any]]) -> str:
    """The commonest kinds of problems: `output values number → inf`, `recompiles: x.size()[0] == 2`."""
    kinds = Counter(_kind(problem) for entry in entries for problem in entry["excuses"])
    shown = [kind for kind, _ in kinds.most_common(_KINDS)]
    return "; ".join(shown) + (f" and {len(kinds) - _KINDS} more" if len(kinds) > _KINDS else "")


def _kind(problem: Mapping[str, Any]) -> str:
    if problem["rule"] == "recompiles":  # the lines after the first one are the guards
        guards = [line.strip().removeprefix("reason").strip() for line in problem["text"].splitlines()[1:]]
        return ": ".join(filter(None, ["recompiles", ", ".join(guards)]))
    return " ".join(part for part in (problem["tensor"], problem["rule"], ", ".join(problem["changes"])) if part)


def _not_judged_text(declared: _Declaration) -> str:
    """`on cuda_sm90 (5 cases): not emulated: …`."""
    parts = []
    for target, entries in declared.targets(NOT_JUDGED).items():
        reasons = list(dict.fromkeys(entry["why"] for entry in entries))
        more = f" and {pluralise(len(reasons) - 1, 'other reason')}" if len(reasons) > 1 else ""
        parts.append(f"on {target} ({pluralise(len(entries), 'case')}): {reasons[0]}{more}")
    return "; ".join(parts)
