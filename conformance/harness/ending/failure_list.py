"""What pytest's own list of failures shows of a run: everything that no cause explains.

Causes are known only when all workers are done. A failure of the check "code" that causes explain is left out of the
list, because the causes are printed below it. `-rA` lists it in a short form, and `-v` in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import pytest

from conformance.harness import accounting
from conformance.review import overview
from conformance.review.accept_command import ACCEPT_WITH
from conformance.review.review import Review

#: So few explained failures are listed in full: an author who runs one case reads its whole diff.
FEW = 3
#: The lines that the short form of a failure keeps.
_KEPT_LINES = (ACCEPT_WITH, "artifacts: ")


def lists_everything(config: pytest.Config) -> bool:
    """Whether the user asked pytest for all reports or for full messages."""
    return config.getoption("verbose") > 0 or bool(set("aA") & set(config.option.reportchars))


def name_causes(reports: Sequence[Any], review: Review, *, in_full: bool) -> None:
    """Adds its causes to each explained failure. Shortens them, unless there are few or `in_full` is set."""
    explained = [report for report in reports if _is_explained(report, review)]
    for report in explained:
        item = item_name(report.nodeid)
        causes = overview.cause_lines_of_item(review, item)
        if in_full or len(explained) <= FEW:
            if hasattr(report.longrepr, "addsection"):
                report.longrepr.addsection("causes", "\n".join(causes))
        else:
            report.longrepr = _short_form(item, causes, str(report.longrepr))


def unexplained(reports: Sequence[Any], review: Review) -> list[Any]:
    """The failures that pytest lists: none without stored code, no explained ones, numerics last, each item once.

    pytest reports an item with failed checks once more as "contains 2 failed subtests". Few explained failures stay.
    """
    checks = {report.nodeid for report in reports if isinstance(report, pytest.SubtestReport)}
    once = [
        report
        for report in reports
        if isinstance(report, pytest.SubtestReport) or report.nodeid not in checks or report.when != "call"
    ]
    once = _without_unstored(once)
    others = [report for report in once if not _is_explained(report, review)]
    if len(once) - len(others) > FEW:
        once = others
    return sorted(once, key=lambda report: _check(report).startswith("numerics"))


def one_each(reports: Sequence[Any]) -> list[Any]:
    """One report for each failed test, so that pytest's last line counts items, as the summary does."""
    return list({(report.nodeid, report.when == "teardown"): report for report in reports}.values())


def item_name(node_id: str) -> str:
    """`flip/hflip-224-u8-cuda_sm90` for the node id `ops/test_flip.py::test_hflip[224-u8-cuda_sm90]`."""
    file, _, rest = node_id.partition("::")
    function, _, labels = rest.partition("[")
    operator = PurePath(file).stem.removeprefix("test_")
    return f"{operator}/{function.removeprefix('test_')}-{labels.removesuffix(']')}"


def _is_explained(report: Any, review: Review) -> bool:
    return _check(report) == "code" and bool(review.causes_of.get(item_name(report.nodeid)))


def _without_unstored(reports: Sequence[Any]) -> list[Any]:
    """The summary of the run counts the checks that have nothing to compare with yet."""
    return [
        report
        for report in reports
        if not (_check(report) in ("code", "binary") and accounting.is_unstored(_first_line(report)))
    ]


def _first_line(report: Any) -> str:
    return (str(report.longrepr).strip().splitlines() or [""])[0]


def _check(report: Any) -> str:
    """The check that a report is about; "" for an item's own report."""
    return getattr(getattr(report, "context", None), "msg", None) or ""


def _short_form(item: str, causes: list[str], message: str) -> str:
    kept = [line for line in message.splitlines() if line.startswith(_KEPT_LINES)]
    return "\n".join([f"{item}:", *(f"  of {line}" for line in causes), *kept])
