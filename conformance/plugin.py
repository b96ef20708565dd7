"""The entry point for pytest: the options, and the plugin itself once a project uses it.

pytest imports this module into every run where the package is installed. So it imports little, and registers
conformance.harness.pytest_plugin only if an option or a conftest asks for it, or when a file declares a case.
"""

from __future__ import annotations

import inspect
import itertools
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conformance.distributions import LAB, PAGE, MissingDistributionError, module_of
from conformance.errors import SuiteMissingError
from conformance.harness.configuration import initial_conftests, pytest_options
from conformance.harness.configuration.pytest_options import PLUGIN, is_enabled, is_named_by_option
from conformance.harness.configuration.short_names import CommandLine
from conformance.settings import long_name, option_name

_NAME = "conformance.harness.pytest_plugin"
_COMMAND_LINE = pytest.StashKey[CommandLine]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    files = (Path(getattr(plugin, "__file__", None) or "") for plugin in pluginmanager.get_plugins())
    # A conftest loads this module where pytest must not load installed plugins. Then the hook below is not called.
    pytest_options.add_options(parser, with_short_names=any(file.name == "conftest.py" for file in files))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> Any:
    """Prepares this process before conftests import torch, if an option or a conftest enables the plugin."""
    files = initial_conftests.initial_conftests(early_config.rootpath, args, early_config.getini("testpaths"))
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    command_line = early_config.stash[_COMMAND_LINE] = CommandLine(early_config, parser, args)
    command_line.expect(texts)
    is_prepared = is_named_by_option(early_config.known_args_namespace) or any(PLUGIN in text for text in texts)
    _refuse_folder_after_blank(args)
    if is_prepared:
        from conformance.harness.pytest_plugin import prepare_process

        prepare_process(getattr(early_config.known_args_namespace, pytest_options.dest("torch-source"), None))
    try:
        result = yield
    finally:
        command_line.settle()
    if is_named_by_option(early_config.known_args_namespace) or is_enabled(early_config):
        _register(early_config)
    elif is_prepared:
        from conformance.harness.pytest_plugin import put_back

        put_back()
    return result


def _refuse_folder_after_blank(args: list[str]) -> None:
    """Pytest has taken such a folder for one of tests, and may have looked for rootdir and ini file there."""
    for option, value in itertools.pairwise(args):
        is_source = option in ("--torch-source", long_name("torch-source")) and Path(value).exists()
        is_baseline = option in ("--baseline", long_name("baseline")) and Path(value, "torch").is_dir()
        if is_source or is_baseline:
            raise pytest.UsageError(f"pytest takes the folder after {option} for tests: write {option}={value}")


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Registers the search of --explore: pytest-xdist has counted its workers by now, and has started none."""
    if pytest_options.option(config, "explore") is not None:
        try:
            pytest_explore = _part(LAB, "fuzzer.pytest_explore", "explore")
        except pytest.UsageError:  # pytest_configure raises it again, where pytest shows it
            return
        config.pluginmanager.register(pytest_explore)
        pytest_explore.take_workers(config)


def pytest_configure(config: pytest.Config) -> None:
    """In a worker of pytest-xdist, the options are known only now."""
    if _names_missing_suite(config):
        raise pytest.UsageError(str(SuiteMissingError()))
    if pytest_options.option(config, "explore") is not None:
        _part(LAB, "fuzzer.pytest_explore", "explore")
    if is_enabled(config):
        _register(config)
    if pytest_options.option(config, "report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_part(PAGE, "report.pytest_report", "report"))


def _part(distribution: str, module: str, option: str) -> ModuleType:
    try:
        return module_of(distribution, module, option_name(option))
    except MissingDistributionError as error:
        raise pytest.UsageError(str(error)) from error


def _names_missing_suite(config: pytest.Config) -> bool:
    """Whether an argument names the suite's cases where only the harness is installed: pytest's error says less."""
    from conformance.cases.roots import CASE_ROOTS, OPS

    names = tuple(f"conformance{separator}{root.name}" for root in CASE_ROOTS for separator in "./")
    words = [word for word in config.args if word.startswith(names) and not Path(word.partition("::")[0]).exists()]
    return bool(words) and not (OPS / "__init__.py").is_file()


def pytest_pycollect_makeitem(collector: Any, obj: Any) -> None:
    """Registers the plugin at the first function with cases, in a project that has not enabled it."""
    if inspect.isfunction(obj) and hasattr(obj, "cases"):
        _register(collector.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """Says which file must change where pytest refuses `pytest_plugins` in a conftest that it loads too late."""
    report = yield
    conftest = collector.path / "conftest.py"
    is_loaded = collector.config.pluginmanager.has_plugin(str(conftest))
    if report.failed and not is_loaded and initial_conftests.names_plugin(conftest, PLUGIN):
        here, top = (os.path.relpath(path) for path in (conftest, collector.config.rootpath / "conftest.py"))
        report.longrepr = (
            f"{here} names {PLUGIN} in pytest_plugins, which pytest allows only in the conftests that it loads first: "
            f"move that line to {top}"
        )
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers may find cases in a project that has not enabled the plugin: this process sums their run up."""
    if not node.config.pluginmanager.has_plugin(_NAME):
        _register(node.config)
        node.config.pluginmanager.get_plugin(_NAME).pytest_configure_node(node)


def _register(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(_NAME):
        from conformance.harness import pytest_plugin

        if _COMMAND_LINE in config.stash:
            config.stash[_COMMAND_LINE].remember_names_of_others()
        config.pluginmanager.register(pytest_plugin, _NAME)
