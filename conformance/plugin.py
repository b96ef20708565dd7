"""The pytest plugin: options, header, parametrisation, workers, summary. What is done is decided elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from conformance import junit, settings, summary
from conformance.capture.environment import PreparationError, build, triton_version
from conformance.case import CaseError
from conformance.checks import Item
from conformance.known_failures import KnownFailureError
from conformance.machine import Machine
from conformance.requirements import RequirementDeclarationError
from conformance.run import Run, RunError, existing, fresh, remember_as_last
from conformance.session import Session
from conformance.settings import Settings, SettingsError
from conformance.snapshot import SnapshotError
from conformance.targets import TargetError

_SESSION = pytest.StashKey[Session]()
_OPTIONS = (
    "device",
    "target",
    "require_device",
    "checks",
    "save_run",
    "baseline",
    "fail_on_drift",
    "verify_deviceless",
)
#: Errors whose message is the whole story.
_OURS = (SettingsError, TargetError, RunError, PreparationError, SnapshotError, KnownFailureError)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "conformance of torch.compile")
    add = group.addoption
    add("--device", metavar="LIST", help="cpu, cuda, xpu or all (default), comma-separated")
    add("--target", metavar="LIST", help="targets by name, such as cuda_sm90,cpu_avx2; with --device, those in both")
    add(
        "--require-device",
        action="store_true",
        help="fail where a selected device is not here, instead of going on without",
    )
    add("--checks", metavar="LIST", help="numerics, requirements, code (default: all three)")
    add("--save-run", metavar="NAME", help="keep what this run generates under this name")
    add("--baseline", metavar="NAME", help="compare code with that run instead of the stored snapshots")
    add("--backend", metavar="NAME", default="inductor", help="another backend of torch.compile: numerics only")
    add("--fail-on-drift", action="store_true", help="drift on a torch version with nothing stored fails")
    add("--verify-deviceless", action="store_true", help="on a real device: generate without it too, and compare")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    with _as_usage_errors():
        wanted = _settings(config)
        settings.clean_for_expecttest(wanted.accept, workers=_is_worker(config) or _worker_count(config) > 1)
        if _is_worker(config) and "conformance" in config.workerinput:
            _begin_worker(config, wanted)
        elif _is_asked_for(config):
            _session(config)
    if not _is_worker(config):
        junit.install(config)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _is_asked_for(config: pytest.Config) -> bool:
    """Whether this run is ours: by an option, by -p, or by a conftest that names the plugin.

    An installed plugin is loaded into every run of pytest, and must cost the others nothing.
    """
    if any(config.getoption(name) for name in _OPTIONS) or "conformance.plugin" in (config.getoption("plugins") or ()):
        return True
    named_by = (getattr(plugin, "pytest_plugins", ()) for plugin in config.pluginmanager.get_plugins())
    return any("conformance.plugin" in names for names in named_by)


def _settings(config: pytest.Config) -> Settings:
    option = config.getoption
    return Settings(
        devices=option("device"),
        targets=option("target"),
        require_device=option("require_device"),
        checks=settings.checks_named(option("checks")),
        accept=settings.accept_wanted(os.environ) if not _is_worker(config) else _worker_data(config).get("accept", ""),
        save_run=option("save_run"),
        baseline=option("baseline"),
        backend=option("backend"),
        fail_on_drift=option("fail_on_drift"),
        verify_deviceless=option("verify_deviceless"),
    )


def _worker_data(config: pytest.Config) -> dict[str, Any]:
    return json.loads(config.workerinput.get("conformance", "{}"))


def _worker_count(config: pytest.Config) -> int:
    count = config.getoption("numprocesses", None)
    return count if isinstance(count, int) and count else 1


def _session(config: pytest.Config) -> Session:
    """This process's session, made where it is first needed. Raises pytest.UsageError."""
    if _SESSION not in config.stash:
        with _as_usage_errors():
            wanted = _settings(config)
            run = fresh(config.rootpath, wanted.save_run)
            session = Session(wanted, Machine.ask(), run, workers=_worker_count(config))
            if wanted.baseline:
                session.baseline = existing(config.rootpath, wanted.baseline)
            missing = session.missing_devices() if wanted.require_device else []
            if missing:
                raise TargetError(
                    f"--require-device: no {' or '.join(missing)} device of the selected targets is here "
                    f"({', '.join(f'{device}: {session.machine.describe(device)}' for device in missing)})"
                )
            session.prepare()
            run.begin(
                {"torch": session.torch, "triton": triton_version(), "targets": [t.name for t in session.selected]}
            )
            config.stash[_SESSION] = session
    return config.stash[_SESSION]


def _begin_worker(config: pytest.Config, wanted: Settings) -> None:
    data = _worker_data(config)
    session = Session(wanted, Machine.from_json(data["machine"]), Run(Path(data["run"])), workers=data["workers"])
    if wanted.baseline:
        session.baseline = existing(config.rootpath, wanted.baseline)
    session.prepare()
    config.stash[_SESSION] = session


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the session to a worker of pytest-xdist. A run that turns out to be ours only later asks for itself."""
    session = _session(node.config)
    node.workerinput["conformance"] = json.dumps(session.to_json() | {"accept": session.settings.accept})


@contextlib.contextmanager
def _as_usage_errors() -> Iterator[None]:
    try:
        yield
    except _OURS as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    session = config.stash.get(_SESSION, None)
    if session is None:
        return []
    devices = {target.device for target in session.selected}
    said = [
        f"{device} {session.problems.get(device) or session.machine.describe(device)}" for device in sorted(devices)
    ]
    triton = f", Triton {triton_version()}" if triton_version() else ", no Triton"
    return [f"conformance: torch {build().version}{triton}; {'; '.join(said)}", *session.notices]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    cases = getattr(metafunc.function, "cases", None)
    if cases is None or "conformance_item" not in metafunc.fixturenames:
        return
    session = _session(metafunc.config)
    items = [
        pytest.param(Item(session, case, target), id="-".join((*case.labels, target.name)))
        for case in cases
        for target in session.selected
    ]
    metafunc.parametrize("conformance_item", items)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item.callspec.params["conformance_item"] for item in items if _is_ours(item)]
    if not ours:
        return
    with _as_usage_errors():
        try:
            summary.refuse_wrong_declarations(config.stash[_SESSION], ours)
        except (CaseError, RequirementDeclarationError) as error:
            raise pytest.UsageError(str(error)) from None


def _is_ours(item: pytest.Item) -> bool:
    return "conformance_item" in getattr(getattr(item, "callspec", None), "params", {})


class SubtestReporter:
    """Checks as pytest's subtests."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self._subtests = subtests

    def check(self, name: str) -> Any:
        return self._subtests.test(name)

    def skip(self, reason: str) -> NoReturn:
        pytest.skip(reason)

    def known(self, reason: str) -> NoReturn:
        pytest.xfail(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _is_ours(item):
        item.config.stash[_SESSION].settle_torch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A check's message is the whole story: no traceback through the harness."""
    report = yield
    if _is_ours(item) and call.excinfo is not None and isinstance(call.excinfo.value, AssertionError):
        report.longrepr = call.excinfo.getrepr(style="value")
    return report


@pytest.fixture
def conformance_report(subtests: pytest.Subtests) -> SubtestReporter:
    """Where an item's checks report to."""
    return SubtestReporter(subtests)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In the process that started the run, once all workers are done: accept, and put the run where it is found."""
    ours = session.config.stash.get(_SESSION, None)
    if ours is not None:
        ours.close()
    if ours is None or _is_worker(session.config):
        return
    finished = summary.finish(ours)
    session.config.stash[_SUMMARY] = finished
    if finished.failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    remember_as_last(session.config.rootpath, ours.run)


_SUMMARY = pytest.StashKey[summary.Summary]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    finished = config.stash.get(_SUMMARY, None)
    if finished is None or not finished.lines:
        return
    terminalreporter.write_sep("-", "conformance")
    for line in finished.lines:
        terminalreporter.write_line(line)
