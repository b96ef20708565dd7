"""Finds conftests that will load the plugin, and conftests and plugins that have imported torch before it prepared."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest


def is_named_by_conftest(plugin: str, root: Path, paths: Iterable[Path]) -> bool:
    """Whether the text of a conftest.py in or above one of the paths, below `root`, names the plugin."""
    tests = [Path(str(path).partition("::")[0]).resolve() for path in paths]
    folders = {folder for path in tests for folder in (path, *path.parents) if folder.is_relative_to(root)}
    files = (folder / "conftest.py" for folder in folders)
    return any(plugin in file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


def importers(config: pytest.Config) -> list[str]:
    """The files of conftests and plugins that have imported torch at their top."""
    torch = sys.modules.get("torch")
    plugins = [each for each in config.pluginmanager.get_plugins() if torch and vars(each).get("torch") is torch]
    return sorted(os.path.relpath(each.__file__) for each in plugins if getattr(each, "__file__", None))
