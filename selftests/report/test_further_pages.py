"""Which further pages a report has."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import made_run, record

from conformance import documentation
from conformance.devices.torch_releases import CHANGES
from conformance.report.columns import cells_of
from conformance.report.further_pages import further_pages

OF_THE_SUITE = "/work/conformance/ops/test_flip.py"


def _addresses(folder: Path, file: str) -> list[str]:
    run = made_run(folder, [record("flip/a", "cpu_avx2", file=file)])
    return [each.address for each in further_pages(cells_of([run]))]


@pytest.mark.parametrize(
    ("file", "pages"),
    [(OF_THE_SUITE, [*CHANGES]), ("/home/x/losses/tests/test_losses.py", []), ("", [])],
    ids=["the suite", "a library", "an earlier version"],
)
def test_changes_of_torch_are_those_of_the_suite(tmp_path: Path, file: str, pages: list[str]) -> None:
    assert _addresses(tmp_path, file) == pages


def test_a_report_without_the_pages_of_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel of the harness has none of them."""
    monkeypatch.setattr(documentation, "pages", dict)
    assert _addresses(tmp_path, OF_THE_SUITE) == []
