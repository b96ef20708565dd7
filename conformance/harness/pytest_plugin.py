"""The pytest plugin of runs with cases: header, parametrisation, workers, summary. conformance.plugin registers it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance import settings
from conformance.capture.deviceless.prepare import prepare, put_back
from conformance.cases.case import Case
from conformance.compiler.garbage_collection import off_while_loading
from conformance.devices.machine import Machine
from conformance.devices.targets import GPUS, TargetError, use_tables
from conformance.errors import ConformanceError
from conformance.harness import explanations, quick
from conformance.harness.accidents import guardian
from conformance.harness.accidents.guarded_items import GuardedItems
from conformance.harness.accidents.native_stderr import NativeStderr
from conformance.harness.accidents.process_end import is_accident
from conformance.harness.accidents.process_memory import MemoryLimit
from conformance.harness.accidents.time_limit import TimeLimit
from conformance.harness.accidents.worker_crashes import MANY_RESTARTS, RetiringWorker, WorkerCrashes, open_worker_file
from conformance.harness.collected import conformance_item, deselect, is_conformance_item, is_in_case_file
from conformance.harness.configuration import header, initial_conftests, pytest_options
from conformance.harness.configuration.pytest_options import is_enabled, option, read_project_settings
from conformance.harness.ending import failure_list, github, junit, summary
from conformance.harness.item.checks import Item
from conformance.harness.item.errors import RaisedError
from conformance.harness.item.exception_text import short_sections
from conformance.harness.overlay import chosen_options, subset_selection, written_failures
from conformance.harness.run_description import run_description
from conformance.harness.schedule import registration, shards
from conformance.harness.schedule.workers import is_worker, worker_count
from conformance.harness.selection import (
    affected_cases,
    baseline_run,
    collected_declarations,
    continued_run,
    empty_selection,
)
from conformance.harness.session import Session
from conformance.harness.subtests import SubtestReporter, WrongDeclarationsItem
from conformance.settings import Settings, option_name
from conformance.sources.source_in_use import use_source
from conformance.storage.runs import (
    Run,
    RunError,
    begun_run,
    link_last_run,
    new_run,
    open_run,
    runs_folder,
    temporary_folder_notice,
    unique_run_name,
)

_SESSION = pytest.StashKey[Session]()
_SETTINGS = pytest.StashKey[Settings]()
#: The name of a run that workers begin when they collect the first case.
_WORKERS_RUN = pytest.StashKey[str]()
#: The connection to the guardian, in the child of one.
_LINK = pytest.StashKey[guardian.Link]()
#: A descriptor of the file that keeps the stderr of native code, where pytest captures it.
_STDERR_FILE = pytest.StashKey[int]()
#: Options with which pytest runs no items, or a debugger runs them: no guardian.
_UNGUARDED_OPTIONS = ("help", "version", "collectonly", "usepdb", "trace")
#: Errors whose message says all: pytest shows no traceback.
_WITHOUT_TRACEBACK = (AssertionError, ConformanceError)
#: Why a run with workers has no guardian.
_HAS_WORKERS = "pytest-xdist starts its workers"
#: The name of the plugin WorkerCrashes.
_CRASHES = "conformance_worker_crashes"


def prepare_process(torch_source: str | None) -> None:
    """Call it before conftests import torch. `torch_source`: as in Settings. Raises pytest.UsageError."""
    with _usage_errors():
        _use_source(torch_source)
        prepare(GPUS if Machine.detect().gpus else ())


def _use_source(word: str | None) -> None:
    if word:
        use_source(word, option_name("torch-source"))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Forks: items run in a child process, so that a crash ends one item and not the run."""
    if is_worker(config) or not is_enabled(config):
        return
    with _usage_errors():  # a second time where a conftest loads the plugin
        _use_source(option(config, "torch-source"))
        affected_cases.read_edit(config)
        baseline_run.use_source_as_baseline(config)
    if config.getoption("maxworkerrestart", None) is None:
        config.option.maxworkerrestart = MANY_RESTARTS  # WorkerCrashes has a limit of its own
    if not _reason_unguarded(config):
        with _usage_errors():
            limit = pytest_options.item_timeout(config)
        link = config.stash[_LINK] = guardian.fork_guarded(limit)
        config.pluginmanager.register(
            GuardedItems(config, link, lambda: config.stash[_SESSION].run, lambda: _broken(config))
        )


def _reason_unguarded(config: pytest.Config) -> str:
    """Why no guardian watches this run; "" if one does."""
    if config.getoption("numprocesses", None) or config.getoption("dist", "no") != "no":
        return _HAS_WORKERS
    for name in _UNGUARDED_OPTIONS:
        if config.getoption(name, None):
            return f"of --{name.removeprefix('use')}"
    return guardian.problem()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if is_enabled(config):
        with _usage_errors():
            _settings(config)
    if not is_worker(config):
        junit.install(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Starts the session before pytest imports test files, which import torch."""
    if is_enabled(session.config):
        _session(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    with off_while_loading():
        return (yield)


def _settings(config: pytest.Config) -> Settings:
    """The settings, read once: configure_expecttest changes the environment variable that they are read from."""
    if _SETTINGS not in config.stash:
        data = _worker_data(config)
        if data.get("baseline"):  # a checkout of PyTorch is a run by now; the command line of a worker has the checkout
            setattr(config.option, pytest_options.dest("baseline"), data["baseline"])
        read = config.stash[_SETTINGS] = pytest_options.read_settings(config, data.get("accept"))
        use_tables(read.overlay.targets)
        settings.configure_expecttest(read.accept, workers=is_worker(config) or worker_count(config) > 1)
    return config.stash[_SETTINGS]


def _worker_data(config: pytest.Config) -> dict[str, Any]:
    """The data that pytest_configure_node sent to this worker; empty in the process that the user started."""
    return json.loads(getattr(config, "workerinput", {}).get("conformance", "{}"))


def _session(config: pytest.Config) -> Session:
    """This process's session; the first call starts it. Raises pytest.UsageError."""
    if _SESSION not in config.stash:
        with _usage_errors():
            session = _start_worker_session(config) if is_worker(config) else _start_session(config)
            session.prepare()
            put_back()
            if not is_worker(config):
                chosen_options.refuse_wrong(session.settings)
            if not is_worker(config) and not config.option.collectonly:
                session.refuse_unusable_targets(initial_conftests.importers(config))
            affected_cases.selection(session.settings, config.rootpath)
            config.stash[_SESSION] = session
            _watch_items(config, session)
            registration.register(config, session)
    return config.stash[_SESSION]


def _watch_items(config: pytest.Config, session: Session) -> None:
    """Registers what a process that runs items needs, so that an accident costs one item."""
    if is_worker(config):
        try:
            file = open_worker_file(session.run, config.workerinput["workerid"])  # type: ignore[attr-defined] # by xdist
        except OSError as error:
            raise RunError(f"the run's folder {session.run.folder} cannot be written to: {error.strerror}") from error
        config.pluginmanager.register(
            RetiringWorker(file, lambda: _broken(config), lambda item: _has_crashed(session.run, item))
        )
    elif _LINK in config.stash:
        file = config.stash[_LINK].dump
    else:
        return
    limit = TimeLimit(file, session.settings.item_timeout, is_in_case_file)
    session.restart_time_limit = limit.restart
    config.pluginmanager.register(limit)
    if config.getoption("capture") == "fd":
        config.stash[_STDERR_FILE] = file
        config.pluginmanager.register(NativeStderr(file, is_in_case_file))


def _has_crashed(run: Run, item: pytest.Item) -> bool:
    return is_conformance_item(item) and is_accident(run.item_named(conformance_item(item).name))


def _broken(config: pytest.Config) -> str:
    """Why this process must not run another item; "" if it may."""
    if _SESSION not in config.stash:
        return ""
    session = config.stash[_SESSION]
    return session.broken or (session.memory.reason() if session.memory else "")


def _start_session(config: pytest.Config) -> Session:
    options, link = _settings(config), config.stash.get(_LINK, None)
    if link and link.is_resumed:
        machine, run = Machine.from_json(link.past.session["machine"]), Run(Path(link.past.session["run"]))
    else:
        machine, run = Machine.detect(), new_run(config.rootpath, options.save_run, link.guardian if link else None)
    session = Session(options, machine, run, workers=worker_count(config))
    if options.write_known_failures:
        written_failures.refuse_folder(Path(options.write_known_failures))
    if options.baseline:
        session.baseline = open_run(config.rootpath, options.baseline)
        if session.baseline.folder.resolve() == run.folder.resolve():
            raise RunError(
                f"{option_name('save-run')} and {option_name('baseline')} are both {options.baseline!r}: a run cannot "
                f"replace its own baseline; give {option_name('save-run')} another name"
            )
    if options.missing:
        continued_run.refuse_other_run(session, open_run(config.rootpath, options.missing))
    missing = session.missing_devices() if options.require_device else []
    if missing:
        present = ", ".join(f"{device}: {session.machine.describe(device)}" for device in missing)
        raise TargetError(
            f"{option_name('require-device')}: this machine has no {' or '.join(missing)} device of the selected "
            f"targets ({present})"
        )
    if not (link and link.is_resumed):
        run.begin(run_description(config.rootpath, session, pytest_options.options_of_items(config)))
    if link:
        link.send(guardian.SESSION, session.to_json())
    return session


def _start_worker_session(config: pytest.Config) -> Session:
    data, options = _worker_data(config), _settings(config)
    machine = Machine.from_json(data["machine"]) if "machine" in data else Machine.detect()
    run = Run(Path(data["run"]) if "run" in data else runs_folder(config.rootpath) / data["workers_run"])
    session = Session(options, machine, run, workers=data["workers"])
    if options.baseline:
        session.baseline = open_run(config.rootpath, options.baseline)
    return session


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Sends the session to a worker of pytest-xdist. Where the plugin is not enabled, sends only a name for the run:
    a worker that collects a case begins the run.
    """
    config = node.config
    session = config.stash.get(_SESSION, None)
    if not config.pluginmanager.has_plugin(_CRASHES):
        limit = pytest_options.item_timeout(config)
        config.pluginmanager.register(WorkerCrashes(config, lambda: _run_of_workers(config), limit), _CRASHES)
    if session is None:
        name = config.stash.setdefault(_WORKERS_RUN, unique_run_name())
        node.workerinput["conformance"] = json.dumps({"workers_run": name, "workers": worker_count(config)})
    else:
        chosen = {"accept": session.settings.accept, "baseline": session.settings.baseline}
        node.workerinput["conformance"] = json.dumps(session.to_json() | chosen)


def _run_of_workers(config: pytest.Config) -> Run | None:
    """The run that workers write to; None if no worker has begun one."""
    if _SESSION in config.stash:
        return config.stash[_SESSION].run
    return begun_run(config.rootpath, config.stash[_WORKERS_RUN]) if _WORKERS_RUN in config.stash else None


def _session_of_workers_run(config: pytest.Config) -> Session | None:
    """The session of a run that workers began because the plugin was not enabled; None where they found no case."""
    run = _run_of_workers(config)
    if run is None:
        return None
    session = Session(_settings(config), Machine.detect(), run, workers=worker_count(config))
    run.write_description(run_description(config.rootpath, session, pytest_options.options_of_items(config)))
    return session


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except ConformanceError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    session = config.stash.get(_SESSION, None)
    if session is None:
        return []
    reason = "" if _LINK in config.stash or config.option.collectonly else _reason_unguarded(config)
    return [
        *header.lines(session, reason.replace(_HAS_WORKERS, ""), read_project_settings(config).texts),
        *affected_cases.header_lines(session.settings, config.rootpath),
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    cases = getattr(metafunc.function, "cases", None)
    if cases is None or "conformance_item" not in metafunc.fixturenames:
        return
    collected_declarations.refuse_parametrised(metafunc.definition)
    session = _session(metafunc.config)
    combined = metafunc.function.combined() if session.settings.thorough else []
    cases, combined = (chosen_options.laid_over(each, session.settings) for each in (cases, combined))
    pairs = [(case, target) for case in (*cases, *combined) for target in session.named_targets]
    if session.settings.quick:
        session.items_without_quick += len(pairs)
        cases = subset_selection.chosen(cases, session.settings.subset)
        pairs = [(quick.first_case(cases, target), target) for target in session.selected_targets]
    items = [
        pytest.param(Item(session, case, target), id="-".join((*case.labels, target.name))) for case, target in pairs
    ]
    metafunc.parametrize("conformance_item", items)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> Any:
    """Checks the declarations of all collected cases before -k deselects any: a refusal must survive -k."""
    wrong = [] if config.option.collectonly else collected_declarations.items_of_wrong_files(items)
    problem = ""
    if (own := config.stash.get(_SESSION, None)) is not None:
        all_imported = not session.testsfailed and not wrong
        problem = collected_declarations.problem(config, own, items, all_imported=all_imported)
    shards.use_durations_of_functions(config, items)
    result = yield
    if problem:
        items[:] = [WrongDeclarationsItem.from_parent(session, name="declarations", message=problem)]
    elif _SESSION in config.stash:
        settings_ = config.stash[_SESSION].settings
        deselect(config, settings_, items)
        affected_cases.deselect(config, settings_, items)
    items += wrong
    return result


def pytest_collection_finish(session: pytest.Session) -> None:
    """Writes which tests pytest wants to run, so that each is accounted for at the end."""
    if session.config.option.collectonly or not any(map(is_conformance_item, session.items)):
        return
    names = {item.nodeid: conformance_item(item).name if is_conformance_item(item) else "" for item in session.items}
    started = session.config.stash[_SESSION]
    if all(map(is_in_case_file, session.items)):  # a process that ends tears down no fixtures of other tests
        started.memory = MemoryLimit()
    with _usage_errors():
        started.run.write_selected(names)
        if option(session.config, "quick"):
            started.run.write_items_without_quick(started.items_without_quick)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if not is_conformance_item(item):
        session = item.config.stash.get(_SESSION, None)
        if session is not None and session.vendors:  # autograd counts the devices at the first backward of the process
            session.set_up_torch()
        return
    conformance_item(item).begin()
    item.config.stash[_SESSION].set_up_torch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Shows only the message of a failed check, without a traceback through the harness."""
    report = yield
    if is_conformance_item(item) and call.excinfo is not None and isinstance(call.excinfo.value, KeyboardInterrupt):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, "interrupted")  # it counts as not run
    if call.excinfo is not None and isinstance(call.excinfo.value, RunError):
        item.session.shouldstop = str(call.excinfo.value)  # no later item could be recorded
    if is_conformance_item(item) and call.excinfo is not None and isinstance(call.excinfo.value, _WITHOUT_TRACEBACK):
        report.longrepr = call.excinfo.getrepr(style="value", chain=False)
        if isinstance(call.excinfo.value, RaisedError):
            if getattr(report.longrepr, "reprcrash", None):  # its message begins with the type of what was raised
                report.longrepr.reprcrash.message = str(call.excinfo.value)
            if item.config.getoption("verbose") <= 0:
                report.sections = short_sections(report.sections)
    elif call.excinfo is not None and (message := explanations.mismatch_message(item.nodeid, call.excinfo.value)):
        report.longrepr = message
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Any:
    """Shows a wrong declaration as its line and its message, without a traceback through the harness."""
    report = yield
    excinfo = getattr(getattr(report, "call", None), "excinfo", None)
    if excinfo is None:
        return report
    if isinstance(excinfo.value, pytest.UsageError):
        report.longrepr = str(excinfo.value)
    elif isinstance(excinfo.value, (ConformanceError, ValueError)) and (
        line := collected_declarations.declaration_line(excinfo)
    ):
        report.longrepr = f"{line}: {excinfo.value}"
    return report


@pytest.fixture
def conformance_report(subtests: pytest.Subtests, request: pytest.FixtureRequest) -> SubtestReporter:
    """Reports the checks of an item."""
    return SubtestReporter(subtests, request.node.user_properties, request.config.stash.get(_STDERR_FILE, None))


@pytest.fixture
def conformance_cases(request: pytest.FixtureRequest) -> Callable[[Sequence[Case]], Sequence[Case]]:
    """Which cases of a function this run compares."""
    session = _session(request.config)
    return partial(quick.first_cases, targets=session.selected_targets) if session.settings.quick else tuple


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In the process that the user started, once all workers are done: sums up the run, and accepts if asked to."""
    config = session.config
    finished = config.stash.get(_SESSION, None)
    if finished is not None:
        finished.compiler.close()
    if is_worker(config):
        return
    finished = finished or _session_of_workers_run(config)
    if finished is None:
        return
    interrupted = session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    result = config.stash[_SUMMARY] = summary.finish(finished, interrupted=interrupted)
    if terminal := config.pluginmanager.get_plugin("terminalreporter"):
        in_full = config.getoption("verbose") > 0
        failed = terminal.stats.get("failed", [])
        summary.refuse_contradictions(result, [each.nodeid for each in (*failed, *terminal.stats.get("error", []))])
        failure_list.name_causes(failed, result.review, in_full=in_full)
    if result.failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if result.lines:
        result.lines += temporary_folder_notice(config.rootpath, finished.run)
        link_last_run(config.rootpath, finished.run)
        if option(config, "quick"):
            in_part = any(config.getoption(name, None) for name in ("keyword", "markexpr", "deselect", "lf"))
            result.ending += quick.next_step(
                finished.run, config.invocation_params.args, config.rootpath, in_part=in_part
            )
    else:
        finished.run.delete()


_SUMMARY = pytest.StashKey[summary.Summary]()


def finished_summary(config: pytest.Config) -> summary.Summary | None:
    """What pytest will print of the run, once it has ended; None if the run has no item, and in a worker."""
    result = config.stash.get(_SUMMARY, None)
    return result if result is not None and result.lines else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> Any:
    """Lets pytest list the failures that no cause explains, and prints the summary of the run below that list."""
    result = config.stash.get(_SUMMARY, None)
    failed = terminalreporter.stats.get("failed", [])
    if result is not None and failed and not failure_list.lists_everything(config):
        terminalreporter.stats["failed"] = failure_list.unexplained(failed, result.review)
    try:
        yield
    finally:
        if failed:
            terminalreporter.stats["failed"] = failure_list.one_each(failed)
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        deselected = bool(terminalreporter.stats.get("deselected"))
        if reason := empty_selection.reason(config, deselected=deselected):
            terminalreporter.write_line(reason)
    if result is None or not result.lines:
        return
    terminalreporter.write_sep("-", "conformance")
    for line in (*result.lines, *result.ending):
        terminalreporter.write_line(line)
    github.append_summary((*result.lines, *result.ending))
    for line in github.error_commands([*failed, *terminalreporter.stats.get("error", [])], config.rootpath):
        terminalreporter.write_line(line)
