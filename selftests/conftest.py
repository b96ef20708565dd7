"""Fixtures of the selftests of the plugin and the command line."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import wheels
from suites import SCALE, SM90, PreloadedSuite, Suite

from conformance.cli.main import main
from conformance.storage import durations
from conformance.storage.runs import private_folder


def pytest_configure(config: pytest.Config) -> None:
    """Enables Ctrl-C, which is tested. A shell may disable it for processes in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "long(why): takes seconds, and why; the short form of .ci/run leaves it out")
    if not hasattr(config, "workerinput"):
        _expect_durations(config.rootpath)


def _expect_durations(root: Path) -> None:
    """Long tests begin first, also in a first run: durations.json has theirs. What this checkout measured counts."""
    folder = private_folder(root)
    known = durations.read(folder)
    if missing := {
        test: seconds for test, seconds in durations.read(Path(__file__).parent).items() if test not in known
    }:
        durations.merge(folder, root, missing)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuses a mark `long` without a reason: nobody can judge whether such a test could be quick."""
    for mark in item.iter_markers("long"):
        if mark.kwargs or len(mark.args) != 1 or not isinstance(mark.args[0], str) or len(mark.args[0].split()) < 3:
            raise pytest.UsageError(f'{item.nodeid}: write @pytest.mark.long("why it cannot be quick")')


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a module with equal values for the parameters that its TOGETHER names follow each other.

    So one worker runs them, and what they share is made once.
    """
    first: dict[Any, int] = {}
    place = {}
    for number, item in enumerate(items):
        names = getattr(getattr(item, "module", None), "TOGETHER", ())
        values = tuple(item.callspec.params[name] for name in names) if hasattr(item, "callspec") else ()
        place[item] = first.setdefault((item.path, values) if values else number, number)
    items.sort(key=place.__getitem__)


@pytest.fixture
def call(capsys):
    """Runs a command; returns its exit status, stdout and stderr."""

    def run(*words):
        try:
            status = main([str(word) for word in words])
        except SystemExit as exit_:  # argparse's own
            status = exit_.code
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """A suite with two cases, without snapshots. Its runs have torch from the start."""
    project = PreloadedSuite(tmp_path)
    project.write("ops/test_scale.py", SCALE)
    return project


@pytest.fixture(scope="session")
def _accepted(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    project = PreloadedSuite(tmp_path_factory.mktemp("accepted"))
    project.write("ops/test_scale.py", SCALE)
    project.accept(*SM90).ends(0).has("snapshots: 2 new, 0 changed, 0 unchanged")
    return project


@pytest.fixture
def accepted(_accepted: Suite, tmp_path: Path) -> Suite:
    """The same suite with snapshots for cuda_sm90."""
    return _accepted.copy_to(tmp_path)


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> wheels.Distributions:
    """All distributions, built from a clean checkout."""
    folder = wheels.once(tmp_path_factory, "distributions", wheels.build)
    log, sources = ((folder / name).read_text(encoding="utf-8") for name in ("log.txt", "sources.txt"))
    return wheels.Distributions(folder / "dist", log, frozenset(sources.splitlines()))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, distributions: wheels.Distributions) -> dict[str, str]:
    """PYTHONPATH with all parts and no cases, installed from their wheels, with their entry points."""
    folder = wheels.once(tmp_path_factory, "installed", lambda folder: wheels.install_to(folder, distributions.parts))
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="session")
def installed_suite(tmp_path_factory: pytest.TempPathFactory, distributions: wheels.Distributions) -> dict[str, str]:
    """PYTHONPATH with all parts and the cases, installed from their wheels."""
    both = [*distributions.parts, distributions.suite]
    folder = wheels.once(tmp_path_factory, "installed_suite", lambda folder: wheels.install_to(folder, both))
    return {"PYTHONPATH": str(folder)}
