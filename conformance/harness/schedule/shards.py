"""Shards of a run for several machines, by pytest-split: durations by function instead of by item.

`--splits 4 --group 2` is pytest-split's. It reads the seconds of each test from a file. A file with a line for each
item would be large, so ours has the mean seconds of an item of each function: ci/shard_durations.py writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The name under which pytest-split registers its plugin, if --splits is given. Checked with pytest-split 0.11.
_PLUGIN = "pytestsplitplugin"


def use_durations_of_functions(config: Any, items: Sequence[Any]) -> None:
    """Gives pytest-split the seconds of each item of a function whose seconds its file has.

    `config`, `items`: pytest's. Call it before pytest-split divides the items. Does nothing without --splits.
    """
    plugin = config.pluginmanager.get_plugin(_PLUGIN)
    durations = getattr(plugin, "cached_durations", None)
    if durations:
        durations.update(seconds_of_items([item.nodeid for item in items], durations))


def seconds_of_items(node_ids: Sequence[str], durations: Mapping[str, float]) -> dict[str, float]:
    """Node id → seconds, of those items for which `durations` has no seconds, and for whose function it has some."""
    functions = ((node_id, node_id.partition("[")[0]) for node_id in node_ids)
    return {each: durations[name] for each, name in functions if each not in durations and name in durations}


def by_function(durations: Mapping[str, float]) -> dict[str, float]:
    """Node id of a function → mean seconds of its items, rounded, sorted. `durations`: node id of an item → seconds."""
    groups: dict[str, list[float]] = {}
    for node_id, seconds in durations.items():
        groups.setdefault(node_id.partition("[")[0], []).append(seconds)
    return {name: round(sum(each) / len(each), 2) for name, each in sorted(groups.items())}
