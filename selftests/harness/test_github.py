"""Annotations of GitHub's CI: where they point, how items of one function are joined, and what they escape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from conformance.harness.ending.github import MOST, error_commands

CI = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/work/repository"}
ROOT = Path("/work/repository/library")


@dataclass
class _Report:
    location: tuple[str, int | None, str]
    longreprtext: str


def test_items_of_one_function_are_one_annotation_at_its_line() -> None:
    failed = [
        _Report(("tests/test_loss.py", 6, "test_loss[f32-cpu_avx2]"), "100 % wrong:\nso"),
        _Report(("tests/test_loss.py", 6, "test_loss[f32-cuda_sm90]"), "other"),
        _Report(("tests/test_loss.py", 11, "test_mean"), "kernels: wanted 1, got 2"),
    ]
    assert list(error_commands(failed, ROOT, CI)) == [
        "::error file=library/tests/test_loss.py,line=7,title=test_loss[f32-cpu_avx2] and 1 more::100 %25 wrong:%0Aso",
        "::error file=library/tests/test_loss.py,line=12,title=test_mean::kernels: wanted 1, got 2",
    ]


def test_two_failed_checks_of_one_item_count_once() -> None:
    failed = [_Report(("test_a.py", 0, "test_a, b: c"), text) for text in ("numerics", "code")]
    assert list(error_commands(failed, ROOT, CI)) == [
        "::error file=library/test_a.py,line=1,title=test_a%2C b%3A c::numerics"
    ]


def test_no_more_than_github_shows() -> None:
    failed = [_Report((f"test_{number}.py", 0, "test"), "wrong") for number in range(MOST + 5)]
    assert len(list(error_commands(failed, ROOT, CI))) == MOST


def test_none_outside_of_ci() -> None:
    assert list(error_commands([_Report(("test_a.py", 0, "test"), "wrong")], ROOT, {})) == []
