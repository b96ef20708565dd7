"""Adds to each failure of the check "code" the causes that explain it.

Causes are known only when all workers are done. pytest prints the first failures of a cause in full, and the others in
a few lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from conformance.review import overview
from conformance.review.review import Review

#: How many failures of a cause are shown in full.
SHOWN_IN_FULL = 3
#: The lines of a shortened failure begin with these words.
_KEPT_LINES = ("accept it with: ", "artifacts: ")


def add_causes(reports: Iterable[Any], review: Review) -> None:
    """Changes the messages of pytest's reports of failed checks."""
    shown: Counter[int] = Counter()
    for report in reports:
        item = item_name(report.nodeid)
        numbers = review.causes_of.get(item)
        if getattr(getattr(report, "context", None), "msg", None) != "code" or not numbers:
            continue
        causes = overview.cause_lines_of_item(review, item)
        if all(shown[number] >= SHOWN_IN_FULL for number in numbers):
            report.longrepr = _shortened(item, causes, str(report.longrepr))
        elif hasattr(report.longrepr, "addsection"):
            report.longrepr.addsection("causes", "\n".join(causes))
        shown.update(numbers)


def item_name(node_id: str) -> str:
    """`flip/hflip-224-u8-cuda_sm90` for the node id `ops/test_flip.py::test_hflip[224-u8-cuda_sm90]`."""
    file, _, rest = node_id.partition("::")
    function, _, labels = rest.partition("[")
    operator = PurePath(file).stem.removeprefix("test_")
    return f"{operator}/{function.removeprefix('test_')}-{labels.removesuffix(']')}"


def _shortened(item: str, causes: list[str], message: str) -> str:
    kept = [line for line in message.splitlines() if line.startswith(_KEPT_LINES)]
    return "\n".join([f"{item}: the same change as in failures above:", *causes, *kept])
