"""Fixtures of the plugin's selftests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from suites import SCALE, SM90, Suite


def pytest_configure() -> None:
    """Enables Ctrl-C, which is tested. A shell may disable it for processes in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """A suite with two cases, without snapshots."""
    project = Suite(tmp_path)
    project.write("ops/test_scale.py", SCALE)
    return project


@pytest.fixture(scope="session")
def _accepted(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    project = Suite(tmp_path_factory.mktemp("accepted"))
    project.write("ops/test_scale.py", SCALE)
    project.accept(*SM90).ends(0).has("snapshots: 2 new, 0 changed, 0 unchanged")
    return project


@pytest.fixture
def accepted(_accepted: Suite, tmp_path: Path) -> Suite:
    """The same suite with snapshots for cuda_sm90."""
    return _accepted.copy_to(tmp_path)
