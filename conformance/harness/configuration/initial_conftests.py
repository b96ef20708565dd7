"""The conftests that pytest loads before it collects, and those of them that have imported torch too early."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest


def initial_conftests(root: Path, arguments: Iterable[str], testpaths: Iterable[str]) -> Iterator[Path]:
    """The files conftest.py that pytest loads first: in and above each path, and in its folders `test*`; below `root`.

    `arguments`: those of pytest, with options and node ids. `testpaths`: patterns, relative to `root`.
    """
    patterns = (str(root / pattern) for pattern in testpaths)
    named = [path for pattern in patterns for path in glob.iglob(pattern, recursive=True)]  # noqa: PTH207 # absolute
    anchors = [path for name in (".", *arguments, *named) if (path := _existing(name.partition("::")[0]))]
    anchors += [folder for anchor in anchors if anchor.is_dir() for folder in anchor.glob("test*")]
    folders = {folder: None for anchor in anchors for folder in (anchor, *anchor.parents)}
    files = (folder / "conftest.py" for folder in folders if folder.is_relative_to(root))
    return (file for file in files if file.is_file())


def names_plugin(conftest: Path, plugin: str) -> bool:
    """Whether a line of the file sets pytest_plugins, and the file names the plugin. False if there is no such file."""
    if not conftest.is_file():
        return False
    text = conftest.read_text(encoding="utf-8", errors="replace")
    return plugin in text and any(line.startswith("pytest_plugins") for line in text.splitlines())


def _existing(name: str) -> Path | None:
    """The path; None where there is none, such as for an option, or for an expression that is too long for a path."""
    try:
        return Path(name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def importers(config: pytest.Config) -> list[str]:
    """The files of conftests and plugins that have imported torch at their top."""
    torch = sys.modules.get("torch")
    plugins = [each for each in config.pluginmanager.get_plugins() if torch and vars(each).get("torch") is torch]
    return sorted(os.path.relpath(each.__file__) for each in plugins if getattr(each, "__file__", None))
