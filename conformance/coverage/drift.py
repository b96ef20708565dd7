"""Whether a coverage map is still true: of the cases that there are, and of what a sample of them executes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.coverage.coverage_map import CoverageMap, bits, ranges

#: An item: case id and target.
Name = tuple[str, str]
#: What the cases of the sweep begin with.
SWEEP = "opinfo"
_SHOWN = 5  # names of each kind


@dataclass
class Drift:
    """`lacking`: items that the map lacks. `gone`: items of the map that are no longer there.

    `differing`: item → path below torch/ → lines that only one side has, as `ranges` writes them. `sampled`: how many
    items were recorded again.
    """

    lacking: list[Name] = field(default_factory=list)
    gone: list[Name] = field(default_factory=list)
    differing: dict[Name, dict[str, str]] = field(default_factory=dict)
    sampled: int = 0

    def __bool__(self) -> bool:
        return bool(self.lacking or self.gone or self.differing)

    def lines(self) -> Iterator[str]:
        """What a person reads; the last line says what was compared."""
        yield from _named("the map lacks items:", self.lacking)
        yield from _named("the map has items that no longer exist:", self.gone)
        yield from _named("these items execute other lines now:", list(self.differing))
        for item, files in list(self.differing.items())[:_SHOWN]:
            for path, text in list(files.items())[:_SHOWN]:
                yield f"    {'-'.join(item)}: torch/{path}: {text}"
        yield f"{self.sampled:,} items were recorded again, {len(self.differing):,} differ"


def sample(items: Sequence[Name], most: int) -> list[int]:
    """The positions of at most `most` items, spread evenly. The same ones in each call."""
    if most >= len(items):
        return list(range(len(items)))
    return [number * len(items) // most for number in range(most)]


def present(coverage: CoverageMap, items: Sequence[Name], *, whole_files: bool, whole_suite: bool = False) -> Drift:
    """Compares which items there are, on the targets of the map.

    `whole_files`: whether `items` are all items of their files; else nothing is known to be gone.
    `whole_suite`: whether a file without items is gone as well. The sweep is another suite.
    """
    there = set(items)
    operators = {_operator(case) for case, _ in items}
    targets = {target for _, target in items}
    gone = [
        item
        for item in coverage.items
        if whole_files
        and item not in there
        and item[1] in targets
        and (_operator(item[0]) in operators or (whole_suite and _operator(item[0]) != SWEEP))
    ]
    on_targets = set(coverage.targets)
    lacking = [item for item in items if item[1] in on_targets and coverage.number(*item) is None]
    return Drift(lacking, gone)


def mapped_lines(coverage: CoverageMap, items: Sequence[Name]) -> dict[Name, dict[str, set[int]]]:
    """What the map says that each item executes, without what a process executes once."""
    found: dict[Name, dict[str, set[int]]] = {item: {} for item in items}
    by_number = {number: item for item in items if (number := coverage.number(*item)) is not None}
    mask = sum(1 << number for number in by_number)
    for path, file in coverage.files.items():
        for line, executing in file.lines.items():
            if line not in file.once:
                for number in bits(executing & mask):
                    found[by_number[number]].setdefault(path, set()).add(line)
    return found


def differing_lines(
    mapped: Mapping[str, set[int]], recorded: Mapping[str, set[int]], once: Mapping[str, set[int]]
) -> dict[str, str]:
    """Path → lines that only one side has: `-3-5` only the map, `+7` only now. Lines of `once` do not count."""
    result = {}
    for path in sorted({*mapped, *recorded}):
        ignored = once.get(path, set())
        before, now = mapped.get(path, set()) - ignored, recorded.get(path, set()) - ignored
        parts = [
            f"{sign}{ranges(sorted(lines))}" for sign, lines in (("-", before - now), ("+", now - before)) if lines
        ]
        if parts:
            result[path] = " ".join(parts)
    return result


def _operator(case: str) -> str:
    return case.split("/", maxsplit=1)[0]


def _named(text: str, items: Sequence[Name]) -> Iterator[str]:
    if items:
        more = f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
        yield f"{text} {', '.join('-'.join(each) for each in items[:_SHOWN])}{more}"
