"""The ini options of the project around a folder, for commands that are not pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.harness.configuration.ini_options import ProjectSettings, add_ini_options, read_project_settings
from conformance.settings import SettingsError

#: pytest reads the ini file, and loads no installed plugin, no conftest and no option of the project.
_ARGUMENTS = ("--noconftest", "--disable-plugin-autoload", "-o", "addopts=", "-o", "required_plugins=")


class _Reader:
    """A plugin that reads the ini options instead of running tests."""

    def __init__(self) -> None:
        self.settings: ProjectSettings | None = None
        self.error: SettingsError | None = None

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        add_ini_options(parser)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        try:
            self.settings = read_project_settings(config)
        except SettingsError as error:
            self.error = error
        return 0


def project_settings(folder: Path) -> ProjectSettings:
    """The ini options that `pytest FOLDER` would have. Raises SettingsError for a wrong value."""
    reader = _Reader()
    with _without_options_of_the_environment():
        status = pytest.main([str(folder), *_ARGUMENTS], plugins=[reader])
    if reader.error:
        raise reader.error
    if reader.settings is None:
        raise SettingsError(f"pytest cannot read the ini file of {folder}: exit status {int(status)}, see above")
    return reader.settings


@contextmanager
def _without_options_of_the_environment() -> Iterator[None]:
    given = {name: os.environ.pop(name) for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS") if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(given)
