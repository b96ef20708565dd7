"""Fixtures of the plugin's selftests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from suites import SCALE, SM90, Suite


def pytest_configure() -> None:
    """Ctrl-C is tested, and who runs this in the background may have it ignored, which processes inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """A suite with two cases, nothing stored."""
    made = Suite(tmp_path)
    made.write("ops/test_scale.py", SCALE)
    return made


@pytest.fixture(scope="session")
def _accepted(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    made = Suite(tmp_path_factory.mktemp("accepted"))
    made.write("ops/test_scale.py", SCALE)
    made.accept(*SM90).ends(0).has("snapshots: 2 new, 0 changed, 0 unchanged")
    return made


@pytest.fixture
def accepted(_accepted: Suite, tmp_path: Path) -> Suite:
    """The same with its code for cuda_sm90 stored."""
    return _accepted.copy_to(tmp_path)
