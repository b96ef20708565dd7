"""Batches: which items a process runs one after the other, because they share work.

Every process of a run computes the same batches from the same list of tests, so no message says which batch an item is
in. Nothing here knows pytest.
"""

from __future__ import annotations

import functools
import re
import statistics
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from conformance.devices.targets import families

#: A batch has at most so many cases: their C++ kernels share a translation unit, and more would gain little.
MAX_CASES = 24
#: A batch of several cases takes at most so many seconds, if durations are known.
MAX_SECONDS = 240.0
#: So many batches for each worker, where there are few items: a worker that ends early takes another one.
_BATCHES_OF_A_WORKER = 3
#: The same for a first run, where a batch may take much longer than expected; but not fewer cases than this.
_BATCHES_OF_UNKNOWN, _CASES_OF_UNKNOWN = 12, 4
#: The expected seconds of a test if no duration is known at all.
DEFAULT_SECONDS = 0.5


@dataclass(frozen=True)
class ScheduledItem:
    """A collected test.

    `case`: the same for all targets of a case; the node id of a test that is no item. `target`: "" for a test that is
    no item. `seconds`: how long it is expected to take. `is_known`: whether it took so long in the last run.
    """

    node_id: str
    file: str
    case: str
    target: str
    seconds: float = DEFAULT_SECONDS
    is_known: bool = False


@dataclass(frozen=True)
class Batch:
    """Items that follow each other in the order of collection. `first`: how many tests are collected before them."""

    first: int
    items: tuple[ScheduledItem, ...]

    @property
    def seconds(self) -> float:
        return sum(item.seconds for item in self.items)

    @property
    def numbers(self) -> range:
        """The places of the items in the order of collection."""
        return range(self.first, self.first + len(self.items))


@functools.cache
def _target_name() -> re.Pattern[str]:
    return re.compile(rf"({'|'.join(families())})_\w+")


def split_node_id(node_id: str) -> tuple[str, str, str]:
    """Returns the file, the case and the target of a node id: see ScheduledItem."""
    file = node_id.partition("::")[0]
    function, bracket, labels = node_id.removesuffix("]").partition("[")
    labels, _, target = labels.rpartition("-")
    if bracket and _target_name().fullmatch(target):
        return file, f"{function}[{labels}]", target
    return file, node_id, ""


def scheduled_items(node_ids: Sequence[str], known: Mapping[str, float]) -> list[ScheduledItem]:
    """The tests with their expected seconds. `known`: node id → seconds of the last run.

    A test that is not known is expected to take the median of its function on its target, else of its file on its
    target, else of its target, else of all items. Without any: DEFAULT_SECONDS.
    """
    missing = any(node_id not in known for node_id in node_ids)
    medians = _medians(known) if missing else {}
    items = []
    for node_id in node_ids:
        seconds = known.get(node_id)
        if seconds is None:
            seconds = next((medians[group] for group in _groups(node_id) if group in medians), DEFAULT_SECONDS)
        items.append(ScheduledItem(node_id, *split_node_id(node_id), seconds, node_id in known))
    return items


def _groups(node_id: str) -> tuple[Hashable, ...]:
    """The groups of a test, the narrowest one first. The widest are all items, and all other tests."""
    file, case, target = split_node_id(node_id)
    return (case.partition("[")[0], target), (file, target), target, bool(target)


def _medians(known: Mapping[str, float]) -> dict[Hashable, float]:
    groups: dict[Hashable, list[float]] = defaultdict(list)
    for node_id, seconds in known.items():
        for group in _groups(node_id):
            groups[group].append(seconds)
    return {group: statistics.median(values) for group, values in groups.items()}


def batches(items: Sequence[ScheduledItem], workers: int) -> list[Batch]:
    """Divides the tests into batches, in the order of collection.

    A batch has tests of one file, with all targets of a case: about 24 cases, and fewer if they take long or if there
    are few for the number of workers. The result depends on the arguments only.
    """
    cases = [list(group) for _, group in groupby(items, key=lambda item: (item.file, item.case))]
    seconds = sum(item.seconds for item in items)
    max_cases, max_seconds = MAX_CASES, MAX_SECONDS
    if workers > 1:
        parts = workers * _BATCHES_OF_A_WORKER
        max_cases = min(max_cases, -(-len(cases) // parts))
        if 2 * sum(item.is_known for item in items) < len(items):
            smaller = len(cases) // (workers * _BATCHES_OF_UNKNOWN)
            max_cases = min(max_cases, max(smaller, _CASES_OF_UNKNOWN))
        max_seconds = min(max_seconds, seconds / parts)
    result: list[Batch] = []
    for _, group in groupby(cases, key=lambda case: case[0].file):
        for batch in _cases_of_batches(list(group), max_cases, max_seconds):
            first = result[-1].numbers.stop if result else 0
            result.append(Batch(first, tuple(item for case in batch for item in case)))
    return result


def _cases_of_batches(
    cases: Sequence[list[ScheduledItem]], max_cases: int, max_seconds: float
) -> list[list[list[ScheduledItem]]]:
    """Divides the cases of a file."""
    count = -(-len(cases) // max_cases)
    size = -(-len(cases) // count)  # so the last batch is not much smaller than the others
    result: list[list[list[ScheduledItem]]] = []
    expected = 0.0
    for case in cases:
        seconds = sum(item.seconds for item in case)
        if not result or len(result[-1]) == size or expected + seconds > max_seconds:
            result.append([])
            expected = 0.0
        result[-1].append(case)
        expected += seconds
    return result


def longest_first(unordered: Sequence[Batch]) -> list[Batch]:
    """The order in which workers get batches: what takes long must not begin last."""
    return sorted(unordered, key=lambda batch: -batch.seconds)
