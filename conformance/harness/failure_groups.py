"""Failures as pytest is about to print them: each is told the groups that it is of, which are known only now.

Workers fail items one by one; what they have in common is seen when all are done. Of a group that many items are in,
the first are shown whole, and the others in a few lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from conformance.review import overview
from conformance.review.review import Review

#: Failures of a group that are shown whole.
WHOLE = 3
_KEPT = ("accept it with: ", "evidence: ")


def name_groups(reports: Iterable[Any], review: Review) -> None:
    """`reports`: pytest's, of failed checks. Changes what they say."""
    shown: Counter[int] = Counter()
    for report in reports:
        item = item_name(report.nodeid)
        numbers = review.groups_of.get(item)
        if getattr(getattr(report, "context", None), "msg", None) != "code" or not numbers:
            continue
        groups = overview.named(review, item)
        if all(shown[number] >= WHOLE for number in numbers):
            report.longrepr = _shortened(item, groups, str(report.longrepr))
        elif hasattr(report.longrepr, "addsection"):
            report.longrepr.addsection("why", "\n".join(groups))
        shown.update(numbers)


def item_name(node: str) -> str:
    """`flip/hflip-224-u8-cuda_sm90` of `ops/test_flip.py::test_hflip[224-u8-cuda_sm90]`."""
    file, _, rest = node.partition("::")
    function, _, labels = rest.partition("[")
    operator = PurePath(file).stem.removeprefix("test_")
    return f"{operator}/{function.removeprefix('test_')}-{labels.removesuffix(']')}"


def _shortened(item: str, groups: list[str], message: str) -> str:
    kept = [line for line in message.splitlines() if re.match("|".join(_KEPT), line)]
    return "\n".join([f"{item}: as in failures above:", *groups, *kept])
