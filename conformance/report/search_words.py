"""What a report's search finds beside the names of cases: kernels, facts, errors, known bugs, missed optimisations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from conformance.report.columns import Cells
from conformance.storage.runs import ItemRecord

_KERNEL = re.compile("\n# kernel (.+)")  # begins with plain text, which is found fast


def search_words(cells: Cells) -> dict[str, Any]:
    """`lines`: the distinct lines. `sets`: numbers of lines. `cells`: for each case, for each column, the number of its
    set; -1 without one.
    """
    lines: dict[str, int] = {}
    sets: dict[tuple[int, ...], int] = {}
    table, columns = [], cells.columns
    for case in cells.cases:
        row = []
        for column in columns:
            cell = cells.cells.get((case, column))
            words = _lines(cell.record) if cell and cell.record else ()
            found = tuple(sorted({lines.setdefault(each.lower(), len(lines)) for each in words}))
            row.append(sets.setdefault(found, len(sets)) if found else -1)
        table.append(row)
    return {"lines": list(lines), "sets": list(sets), "cells": table}


def _lines(record: ItemRecord) -> Iterator[str]:
    yield from (f"{name} {text}" for name, text in record.facts.items())
    yield from _KERNEL.findall(record.text)
    yield from (each.detail for each in record.checks.values() if each.detail)
    yield from (f"{each['fact']} {each['reason']}" for each in record.missed)
