"""The pytest plugin: options, header, parametrisation, workers, summary. What is done is decided elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance import settings
from conformance.cases.case import Case
from conformance.cases.lookup import OPS
from conformance.devices.environment import torch_build, triton_version
from conformance.devices.machine import Machine
from conformance.devices.targets import TargetError
from conformance.errors import ConformanceError
from conformance.harness import explanations, failure_groups, junit, summary
from conformance.harness.item import Item
from conformance.harness.session import Session
from conformance.harness.subtests import SubtestReporter, WrongDeclarationsItem
from conformance.settings import Settings
from conformance.storage.runs import (
    Run,
    RunError,
    existing,
    fresh,
    kept_elsewhere,
    made_by_workers,
    remember_as_last,
    runs_folder,
    unnamed,
)
from conformance.storage.unused import unused

_SESSION = pytest.StashKey[Session]()
_SETTINGS = pytest.StashKey[Settings]()
#: The name of a run that nothing has asked for yet.
_LATER = pytest.StashKey[str]()
_OPTIONS = (
    "device",
    "target",
    "require_device",
    "checks",
    "save_run",
    "baseline",
    "fail_on_drift",
    "verify_deviceless",
    "no_emulation",
)
#: With these, not everything is looked at, and nothing is called unused.
_NARROWING = ("keyword", "markexpr", "device", "target", "checks", "baseline")
#: Errors whose message is all that a user needs: no traceback.
_WITHOUT_TRACEBACK = (AssertionError, ConformanceError)
_HARNESS = Path(__file__).parent


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
    add("--checks", metavar="LIST", help="numerics, requirements, code (default: these three), binary")
    add("--save-run", metavar="NAME", help="keep what this run generates under this name")
    add("--baseline", metavar="NAME", help="compare code with that run instead of the stored snapshots")
    add(
        "--backend",
        metavar="NAME",
        default="inductor",
        help="another backend of torch.compile, or module:function: numerics only",
    )
    add("--via", metavar="WAY", default="compile", help=f"{', '.join(settings.VIA)}: numerics only, but for compile")
    add("--thorough", action="store_true", help="also cases that combine what the declared ones vary one at a time")
    add("--fail-on-drift", action="store_true", help="drift on a torch version with nothing stored fails")
    add("--no-emulation", action="store_true", help="do not run on the cpu what is for gpus that are not here")
    add("--verify-deviceless", action="store_true", help="on a real device: generate without it too, and compare")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if _is_asked_for(config):
        with _as_usage_errors():
            _settings(config)
    if not _is_worker(config):
        junit.install(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before test files are imported, and torch with them."""
    if _is_asked_for(session.config):
        _session(session.config)


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
    """Asked for once: expecttest is given the variable as it means it, and ours is gone then."""
    if _SETTINGS not in config.stash:
        wanted = config.stash[_SETTINGS] = _asked_settings(config)
        settings.configure_expecttest(wanted.accept, workers=_is_worker(config) or _worker_count(config) > 1)
    return config.stash[_SETTINGS]


def _asked_settings(config: pytest.Config) -> Settings:
    option, given = config.getoption, _worker_data(config)
    return Settings(
        devices=option("device"),
        targets=option("target"),
        require_device=option("require_device"),
        checks=settings.parse_checks(option("checks")),
        accept=given["accept"] if "accept" in given else settings.parse_accept(os.environ),
        save_run=option("save_run"),
        baseline=option("baseline"),
        backend=option("backend"),
        via=settings.parse_via(option("via"), option("backend")),
        thorough=option("thorough"),
        fail_on_drift=option("fail_on_drift"),
        verify_deviceless=option("verify_deviceless"),
        emulation=not option("no_emulation"),
    )


def _worker_data(config: pytest.Config) -> dict[str, Any]:
    """What the process that started the run has told this one; nothing in that process itself."""
    return json.loads(getattr(config, "workerinput", {}).get("conformance", "{}"))


def _worker_count(config: pytest.Config) -> int:
    count = config.getoption("numprocesses", None)
    return count if isinstance(count, int) and count else 1


def _session(config: pytest.Config) -> Session:
    """This process's session, made where it is first needed. Raises pytest.UsageError."""
    if _SESSION not in config.stash:
        with _as_usage_errors():
            session = _begin_in_worker(config) if _is_worker(config) else _begin(config)
            session.prepare()
            config.stash[_SESSION] = session
    return config.stash[_SESSION]


def _begin(config: pytest.Config) -> Session:
    wanted = _settings(config)
    run = fresh(config.rootpath, wanted.save_run)
    session = Session(wanted, Machine.detect(), run, workers=_worker_count(config))
    if wanted.baseline:
        session.baseline = existing(config.rootpath, wanted.baseline)
        if session.baseline.folder.resolve() == run.folder.resolve():
            raise RunError(
                f"--save-run and --baseline are both {wanted.baseline!r}: a run cannot replace what it is "
                "compared with; give it another name"
            )
    missing = session.missing_devices() if wanted.require_device else []
    if missing:
        raise TargetError(
            f"--require-device: no {' or '.join(missing)} device of the selected targets is here "
            f"({', '.join(f'{device}: {session.machine.describe(device)}' for device in missing)})"
        )
    run.begin(_about(session))
    return session


def _about(session: Session) -> dict[str, Any]:
    targets = [target.name for target in session.selected_targets]
    return {"torch": session.torch, "triton": triton_version(), "targets": targets}


def _begin_in_worker(config: pytest.Config) -> Session:
    given, wanted = _worker_data(config), _settings(config)
    machine = Machine.from_json(given["machine"]) if "machine" in given else Machine.detect()
    run = Run(Path(given["run"]) if "run" in given else runs_folder(config.rootpath) / given["later"])
    session = Session(wanted, machine, run, workers=given["workers"])
    if wanted.baseline:
        session.baseline = existing(config.rootpath, wanted.baseline)
    return session


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the session to a worker of pytest-xdist. Where nothing asks for us, only a name for the run: a worker
    that comes upon a case begins it.
    """
    config = node.config
    session = config.stash.get(_SESSION, None)
    if session is None:
        later = config.stash.setdefault(_LATER, unnamed())
        node.workerinput["conformance"] = json.dumps({"later": later, "workers": _worker_count(config)})
    else:
        node.workerinput["conformance"] = json.dumps(session.to_json() | {"accept": session.settings.accept})


def _begun_by_workers(config: pytest.Config) -> Session | None:
    """The session of a run that nothing asked for, and in which workers came upon cases."""
    run = made_by_workers(config.rootpath, config.stash[_LATER]) if _LATER in config.stash else None
    if run is None:
        return None
    session = Session(_settings(config), Machine.detect(), run, workers=_worker_count(config))
    run.describe(_about(session))
    return session


@contextlib.contextmanager
def _as_usage_errors() -> Iterator[None]:
    try:
        yield
    except ConformanceError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    session = config.stash.get(_SESSION, None)
    if session is None:
        return []
    devices, machine = {target.device for target in session.selected_targets}, session.machine
    said = [
        f"{device} {'off' if device in session.patch_problems else session.generation_problems.get(device) or machine.describe(device)}"
        for device in sorted(devices)
    ]
    triton = f", Triton {triton_version()}" if triton_version() else ", no Triton"
    return [f"conformance: torch {torch_build().version}{triton}; {'; '.join(said)}", *session.notices]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    cases = getattr(metafunc.function, "cases", None)
    if cases is None or "conformance_item" not in metafunc.fixturenames:
        return
    session = _session(metafunc.config)
    more = metafunc.function.combined() if session.settings.thorough else []
    items = [
        pytest.param(Item(session, case, target), id="-".join((*case.labels, target.name)))
        for case in (*cases, *more)
        for target in session.selected_targets
    ]
    metafunc.parametrize("conformance_item", items)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> Any:
    """Looks at all that was collected, and refuses for what is left of it: -k may not take a refusal away."""
    why = _refused(config, items)
    result = yield
    if why:
        items[:] = [WrongDeclarationsItem.from_parent(session, name="declarations", message=why)]
    return result


def _refused(config: pytest.Config, items: list[pytest.Item]) -> str:
    """Why nothing of this can run, or "". Raises pytest.UsageError instead where that ends the run."""
    modules = {item.module: None for item in items if _is_ours(item)}
    if not modules:
        return ""
    tests = [value for module in modules for value in vars(module).values() if _cases(value)]
    cases = {id(case): case for test in tests for case in test.cases}
    try:
        folders = _collected_folders(config)
        summary.refuse_wrong_declarations(
            config.stash[_SESSION],
            list(cases.values()),
            folders,
            combined=lambda: [case for test in tests for case in test.combined()],
        )
        if not any(config.getoption(name, None) for name in _NARROWING):
            _note_unused(config, list(cases.values()), folders)
    except ConformanceError as error:
        if not _is_worker(config):
            raise pytest.UsageError(str(error)) from None
        return str(error)
    return ""


def _note_unused(config: pytest.Config, cases: Sequence[Case], folders: Sequence[Path]) -> None:
    if names := [case for _, case in unused(cases, folders)]:
        shown = [os.path.relpath(folder) for folder in folders if folder.resolve() != OPS.resolve()]
        config.stash[_SESSION].run.note_unused(names, " ".join(["python -m conformance prune", *shown]))


def _cases(value: Any) -> Sequence[Case]:
    found = getattr(value, "cases", ())
    return found if isinstance(found, list) and all(isinstance(each, Case) for each in found) else ()


def _collected_folders(config: pytest.Config) -> list[Path]:
    """The folders that were asked for whole; none where anything was left out."""
    option = config.getoption
    if any(option(name, None) for name in ("deselect", "ignore", "ignore_glob", "lf", "pyargs")):
        return []
    folders = [Path(config.invocation_params.dir, argument) for argument in config.args]
    return folders if all(folder.is_dir() for folder in folders) else []


def _is_ours(item: pytest.Item) -> bool:
    return "conformance_item" in getattr(getattr(item, "callspec", None), "params", {})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _is_ours(item):
        item.config.stash[_SESSION].set_up_torch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A check's message is the whole story: no traceback through the harness."""
    report = yield
    if _is_ours(item) and call.excinfo is not None and isinstance(call.excinfo.value, _WITHOUT_TRACEBACK):
        report.longrepr = call.excinfo.getrepr(style="value")
    elif call.excinfo is not None and (said := explanations.mismatch_message(item.nodeid, call.excinfo.value)):
        report.longrepr = said
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Any:
    """A case that is declared wrongly: where, and what would be right, without the way through the harness."""
    report = yield
    call = getattr(report, "call", None)
    error = call.excinfo.value if call is not None and call.excinfo is not None else None
    if isinstance(error, pytest.UsageError):
        report.longrepr = str(error)
    elif isinstance(error, (ConformanceError, ValueError)) and (place := _declared_at(call.excinfo)):
        report.longrepr = f"{place}: {error}"
    return report


def _declared_at(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The line that called into the harness, of an error raised in it; "" for any other error."""
    *outer, inner = excinfo.traceback
    if not _is_of_harness(inner.path):
        return ""
    for entry in reversed(outer):
        if not _is_of_harness(entry.path):
            return f"{os.path.relpath(entry.path)}:{entry.lineno + 1}"
    return ""


def _is_of_harness(file: str | Path) -> bool:
    """Whether a file is of this package, and not a file of cases."""
    return Path(file).is_relative_to(_HARNESS) and not Path(file).is_relative_to(OPS)


@pytest.fixture
def conformance_report(subtests: pytest.Subtests) -> SubtestReporter:
    """Where an item's checks report to."""
    return SubtestReporter(subtests)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In the process that started the run, once all workers are done: accept, and put the run where it is found."""
    config = session.config
    ours = config.stash.get(_SESSION, None)
    if ours is not None:
        ours.close()
    if _is_worker(config) or (ours := ours or _begun_by_workers(config)) is None:
        return
    interrupted = session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    finished = summary.finish(ours, interrupted=interrupted)
    config.stash[_SUMMARY] = finished
    if terminal := config.pluginmanager.get_plugin("terminalreporter"):
        failure_groups.add_groups((each for told in terminal.stats.values() for each in told), finished.review)
    if finished.failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if finished.lines:
        finished.lines += kept_elsewhere(config.rootpath, ours.run)
        remember_as_last(config.rootpath, ours.run)
    else:
        ours.run.discard()


_SUMMARY = pytest.StashKey[summary.Summary]()


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and _SESSION in config.stash and config.option.keyword:
        terminalreporter.write_line(f"-k {config.option.keyword!r} selects nothing; pytest --collect-only -q names all")
    finished = config.stash.get(_SUMMARY, None)
    if finished is None or not finished.lines:
        return
    terminalreporter.write_sep("-", "conformance")
    for line in finished.lines:
        terminalreporter.write_line(line)
