"""The causes of costs: what a compile does and what its code holds became more or less than in another run.

The work of all items together is one cause, memory that became more is one, and memory that became less is one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.facts.compile_work import NO_PHASES, is_changed
from conformance.review.causes import Cause, ChangedText, Consequence, Example

WORK, MEMORY = "compile_work", "memory"
_PEAK = "memory.peak"
_FUNCTIONS = f"{WORK}.functions"
#: Smaller changes, as parts of the whole, are those of the order of sets.
_LEAST = 0.001
#: How many phases a title names, functions the consequences, and items the example.
_PHASES, _FEW = 4, 10


@dataclass(frozen=True)
class Costs:
    """The facts of an item, before and after. Those of a run without --checks work have no costs."""

    texts: ChangedText
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def both(self, name: str) -> tuple[int, int]:
        return self.before.get(name, 0), self.after.get(name, 0)

    def have(self, name: str) -> bool:
        return name in self.before and name in self.after


def find_cost_causes(costs: Sequence[Costs]) -> list[Cause]:
    """Work first. Items without a count on one of the two sides are left out."""
    found = _work([each for each in costs if each.have(WORK)])
    return [*found, *_memory([each for each in costs if each.have(MEMORY)])]


def _work(costs: Sequence[Costs]) -> Iterator[Cause]:
    old, new = _sums(costs, WORK)
    if _differs(old, new) or any(is_changed(*each.both(WORK)) for each in costs):
        members = [each for each in costs if _differs(*each.both(WORK))]
        phases = ", ".join(_changed_phases(costs)[:_PHASES])
        title = f"compile work {_percent(old, new)}{', of it ' if phases else ''}{phases}"
        yield _cause((WORK,), title, members, WORK, "calls", _changed_functions(costs, _LEAST * old))


def _memory(costs: Sequence[Costs]) -> Iterator[Cause]:
    for word, sign in (("more", 1), ("fewer", -1)):
        members = [each for each in costs if sign * each.both(MEMORY)[1] > sign * each.both(MEMORY)[0]]
        if members:
            yield _cause((_PEAK, word), f"memory: {word} bytes at the peak", members, MEMORY, "bytes")


def _cause(
    key: tuple[str, ...],
    title: str,
    members: Sequence[Costs],
    fact: str,
    unit: str,
    consequences: Sequence[Consequence] = (),
) -> Cause:
    """The example is the item that changed most; its lines are those of the first items."""
    order = sorted(members, key=lambda each: (-_share(*each.both(fact)), each.texts.name))
    numbers = [(each.texts.name, *each.both(fact)) for each in order[:_FEW]]
    lines = [f"{name}  {old:,} → {new:,} {unit}" for name, old, new in numbers]
    return Cause(
        id=hashlib.sha256(repr(key).encode()).hexdigest()[:6],
        kind="cost",
        title=title,
        members=[each.texts for each in order],
        kernels=0,
        example=Example(order[0].texts, "", tuple(lines)),
        consequences=list(consequences),
        key=key,
    )


def _changed_phases(costs: Sequence[Costs]) -> list[str]:
    """Each phase of which the sum changed, the one with the most calls first: "scheduling +31.0 %"."""
    keys = {key for each in costs for key in (*each.before, *each.after) if key.startswith(f"{WORK}.")}
    phases = {key.removeprefix(f"{WORK}.") for key in keys} - {*NO_PHASES}
    sums = {phase: _sums(costs, f"{WORK}.{phase}") for phase in phases}
    changed = [phase for phase in sums if _differs(*sums[phase])]
    order = sorted(changed, key=lambda phase: (-abs(sums[phase][1] - sums[phase][0]), phase))
    return [f"{phase.replace('_', ' ')} {_percent(*sums[phase])}" for phase in order]


def _changed_functions(costs: Sequence[Costs], least: float) -> list[Consequence]:
    """The functions whose calls changed, the most first. One that a side does not name may have its fewest calls."""
    changes, items = Counter[str](), Counter[str]()
    for one, other in ((each.before.get(_FUNCTIONS), each.after.get(_FUNCTIONS)) for each in costs):
        if one and other:
            fewest, others_fewest = min(one.values()), min(other.values())
            for name in {*one, *other}:
                before = one.get(name, min(fewest, other.get(name, 0)))
                change = other.get(name, min(others_fewest, before)) - before
                changes[name] += change
                items[name] += bool(change)
    order = sorted(changes, key=lambda name: (-abs(changes[name]), name))
    return [
        Consequence(f"{name} {changes[name]:+,} calls", items[name])
        for name in order[:_FEW]
        if abs(changes[name]) > least
    ]


def _sums(costs: Sequence[Costs], name: str) -> tuple[int, int]:
    old, new = (sum(each.both(name)[side] for each in costs) for side in (0, 1))
    return old, new


def _share(old: int, new: int) -> float:
    return abs(new - old) / max(old, 1)


def _differs(old: int, new: int) -> bool:
    return abs(new - old) > _LEAST * max(old, new)


def _percent(old: int, new: int) -> str:
    return f"{new - old:+,}" if not old else f"{(new - old) / old:+.1%}".replace("%", " %")
