"""The entry point for pytest: the options, and the plugin itself once a project uses it.

pytest imports this module into every run where the package is installed. So it imports little, and registers
conformance.harness.pytest_plugin only if an option or a conftest asks for it, or when a file declares a case.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from conformance.harness import early_torch, pytest_options
from conformance.harness.pytest_options import PLUGIN, is_enabled

_NAME = "conformance.harness.pytest_plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    pytest_options.add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Any:
    """Prepares this process before conftests import torch, if an option or a conftest enables the plugin."""
    options = early_config.known_args_namespace
    by_option = any(getattr(options, name, None) for name in pytest_options.ENABLING)
    by_option |= PLUGIN in (options.plugins or ())
    paths = [Path.cwd(), *map(Path, args)]
    if by_option or early_torch.is_named_by_conftest(PLUGIN, early_config.rootpath, paths):
        from conformance.harness.pytest_plugin import prepare_process

        prepare_process()
    result = yield
    if by_option or is_enabled(early_config):
        _register(early_config)
    return result


def pytest_configure(config: pytest.Config) -> None:
    """In a worker of pytest-xdist, the options are known only now."""
    if is_enabled(config):
        _register(config)


def pytest_pycollect_makeitem(collector: Any, obj: Any) -> None:
    """Registers the plugin at the first function with cases, in a project that has not enabled it."""
    if inspect.isfunction(obj) and hasattr(obj, "cases"):
        _register(collector.config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers may find cases in a project that has not enabled the plugin: this process sums their run up."""
    if not node.config.pluginmanager.has_plugin(_NAME):
        _register(node.config)
        node.config.pluginmanager.get_plugin(_NAME).pytest_configure_node(node)


def _register(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(_NAME):
        from conformance.harness import pytest_plugin

        config.pluginmanager.register(pytest_plugin, _NAME)
