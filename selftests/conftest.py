"""Fixtures of the plugin's selftests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import wheels
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


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> wheels.Distributions:
    """Both distributions, built from a clean checkout."""
    folder = wheels.once(tmp_path_factory, "distributions", wheels.build)
    log, sources = ((folder / name).read_text(encoding="utf-8") for name in ("log.txt", "sources.txt"))
    return wheels.Distributions(folder / "dist", log, frozenset(sources.splitlines()))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, distributions: wheels.Distributions) -> dict[str, str]:
    """PYTHONPATH with the harness alone, installed from its wheel, with its entry point."""
    folder = wheels.once(
        tmp_path_factory, "installed", lambda folder: wheels.install_to(folder, [distributions.harness])
    )
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="session")
def installed_suite(tmp_path_factory: pytest.TempPathFactory, distributions: wheels.Distributions) -> dict[str, str]:
    """PYTHONPATH with the harness and the cases, installed from their wheels."""
    both = [distributions.harness, distributions.suite]
    folder = wheels.once(tmp_path_factory, "installed_suite", lambda folder: wheels.install_to(folder, both))
    return {"PYTHONPATH": str(folder)}
