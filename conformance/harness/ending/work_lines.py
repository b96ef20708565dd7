"""The lines at the end of a run about the work of its compiles and the memory of its code, with what became more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.capture.call_counts import SYMBOLS
from conformance.storage.runs import ItemRecord, Run
from conformance.words import pluralise

_WORK, _MEMORY = "compile_work", "memory"
_FUNCTIONS = f"{_WORK}.functions"
#: Parts of compile_work that are no phases.
_NO_PHASES = ("nodes", "kernels", "lines", "bytes", "functions")
#: Smaller changes, as parts of the whole, are those of the order of sets.
_LEAST = 0.001
#: How many phases and items a line names.
_NAMED = 4


def work_lines(items: Sequence[ItemRecord], baseline: Run | None, name: str) -> Iterator[str]:
    """Nothing without the check "work". `name`: the baseline's, as the user wrote it."""
    now = {(item.case, item.target): item.fact_values for item in items if _WORK in item.fact_values}
    if not now:
        return
    calls = sum(values[_WORK] for values in now.values())
    yield f"compile work: {calls:,} calls of Python functions in {pluralise(len(now), 'item')}"
    if baseline is None:
        return
    before = {key: record.fact_values for key in now if (record := baseline.item(*key)) is not None}
    both = [(before[key], now[key]) for key in now if _WORK in before.get(key, {})]
    if not both:
        yield f"the run {name} counted nothing: give it --checks work"
        return
    yield _of_calls(both, name)
    if changed := _of_functions(both):
        yield f"the functions with the most calls more or fewer: {', '.join(changed[:_NAMED])}"
    yield from _of_memory({key: (before[key], now[key]) for key in now if _MEMORY in before.get(key, {})}, name)


def _of_calls(both: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], name: str) -> str:
    old, new = (sum(pair[side][_WORK] for pair in both) for side in (0, 1))
    if not _differs(old, new):
        return f"compile work: as in the run {name}"
    phases = {key for pair in both for values in pair for key in values if key.startswith(f"{_WORK}.")}
    sums = {
        key.partition(".")[2]: [sum(pair[side].get(key, 0) for pair in both) for side in (0, 1)]
        for key in phases
        if key.partition(".")[2] not in (*_NO_PHASES, SYMBOLS)
    }
    changed = {phase: each for phase, each in sums.items() if _differs(*each)}
    order = sorted(changed, key=lambda phase: -abs(changed[phase][1] - changed[phase][0]))
    named = ", ".join(f"{phase.replace('_', ' ')} {_percent(*changed[phase])}" for phase in order[:_NAMED])
    return f"compile work {_percent(old, new)} against the run {name}, of it {named}"


def _of_functions(both: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """The functions whose calls changed, the most first. One that a side does not name may have its fewest calls."""
    changes = Counter[str]()
    for old, new in both:
        one, other = old.get(_FUNCTIONS, {}), new.get(_FUNCTIONS, {})
        if one and other:
            fewest, others_fewest = min(one.values()), min(other.values())
            for name in {*one, *other}:
                before = one.get(name, min(fewest, other.get(name, 0)))
                changes[name] += other.get(name, min(others_fewest, before)) - before
    least = _LEAST * sum(old[_WORK] for old, _ in both)
    order = sorted(changes, key=lambda name: (-abs(changes[name]), name))
    return [f"{name} {changes[name]:+,}" for name in order if abs(changes[name]) > least]


def _of_memory(both: Mapping[tuple[str, str], tuple[Mapping[str, Any], Mapping[str, Any]]], name: str) -> Iterator[str]:
    changed = {key: (pair[0][_MEMORY], pair[1][_MEMORY]) for key, pair in both.items()}
    for word, found in (
        ("more", {key: pair for key, pair in changed.items() if pair[1] > pair[0]}),
        ("fewer", {key: pair for key, pair in changed.items() if pair[1] < pair[0]}),
    ):
        order = sorted(found, key=lambda key: -abs(found[key][1] - found[key][0]))
        named = [f"{case}-{target} {found[case, target][0]:,} → {found[case, target][1]:,}" for case, target in order]
        if named:
            others = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            yield f"memory: {pluralise(len(named), 'item')} with {word} bytes at the peak than in the run {name}: " + (
                ", ".join(named[:_NAMED]) + others
            )


def _differs(old: int, new: int) -> bool:
    return abs(new - old) > _LEAST * max(old, new)


def _percent(old: int, new: int) -> str:
    return f"{new - old:+,}" if not old else f"{(new - old) / old:+.1%}".replace("%", " %")
