"""The source whose Python files this process and its children import as torch."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance.devices import environment
from conformance.sources.laid_tree import LaidTree, lay
from conformance.sources.source_fit import path_with, refuse_misfit
from conformance.sources.torch_source import SourceError, TorchSource, parse_source

#: Tells child processes, such as workers of pytest-xdist, which source is in use.
VARIABLE = "_CONFORMANCE_TORCH_SOURCE"


@dataclass(frozen=True)
class SourceInUse:
    """`word`: as typed. `path`, `commit`: as TorchSource.to_json. `name`: for messages. `differs`: the number of files
    that are not as in the installed torch. `folder`: of the tree.
    """

    word: str
    path: str
    commit: str
    name: str
    differs: int
    folder: str

    def to_json(self) -> dict[str, Any]:
        """What run.json holds."""
        return {"path": self.path, "commit": self.commit}


def source_in_use() -> SourceInUse | None:
    """The source that this process imports torch from; None for the installed torch."""
    text = os.environ.get(VARIABLE)
    return SourceInUse(**json.loads(text)) if text else None


class OtherFilesError(SourceError):
    """Python imports torch from other files than those of the source in use."""


class _TreeFinder:
    """Finds torch in one folder, whatever comes first in sys.path: pytest puts folders of test files there."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """The place of torch in the folder; None for any other name."""
        return PathFinder.find_spec(name, [self.folder], target) if name == "torch" and path is None else None


def pin(folder: str) -> None:
    """Lets this process import torch from a folder, whatever comes first in sys.path later."""
    finders: list[Any] = sys.meta_path
    finders[:] = [_TreeFinder(folder), *(each for each in finders if not isinstance(each, _TreeFinder))]


def refuse_other_files(option: str) -> None:
    """Raises OtherFilesError where torch, or a module of it, does not come from the source in use.

    Imports torch, to see it. Does nothing for the installed torch.
    """
    used = source_in_use()
    if used is None:
        return
    importlib.import_module("torch")
    tree = Path(used.folder, "torch")
    if wrong := next((file for file in _imported_files() if not file.is_relative_to(tree)), None):
        raise OtherFilesError(
            f"{option} {used.word}: Python has imported {wrong}, which is not below {tree}, so the code would not be "
            "that of these files: leave out the conftest or plugin that imports torch or changes how Python finds it"
        )


def _imported_files() -> list[Path]:
    """The Python files of the modules of torch in this process, without those that other packages put below torch.

    That of torch itself comes first.
    """
    modules = [(name, each) for name, each in list(sys.modules.items()) if f"{name}.".startswith("torch.")]
    modules.sort(key=lambda each: each[0] != "torch")
    specs = (each.__spec__ for name, each in modules if isinstance(each, ModuleType) and each.__name__ == name)
    return [Path(spec.origin) for spec in specs if spec and spec.origin and spec.origin.endswith(".py")]


def use_source(word: str, option: str) -> None:
    """Lets this process and its children import torch with the Python files of a source. Call it before that import.

    Raises SourceError, GitError and LayError, and MisfitError where they do not fit the installed binaries.
    """
    current = source_in_use()
    if current is not None and current.folder in sys.path:
        if current.word == word:
            pin(current.folder)
            return
        raise SourceError(f"{option} {word}: this process uses {current.name} already")
    source = parse_source(word, option)
    if "torch" in sys.modules:
        raise SourceError(f"{option}: torch is imported already; leave out the plugin or the conftest that imports it")
    build = environment.torch_build()
    tree = lay(source, build)
    refuse_misfit(tree, source, build)
    put_first(tree, word, source)


def put_first(tree: LaidTree, word: str, source: TorchSource) -> None:
    """Lets this process and its children import torch from a tree. Raises SourceError where Python finds another."""
    os.environ["PYTHONPATH"] = path_with(tree)
    sys.path.insert(0, str(tree.folder))
    pin(str(tree.folder))
    importlib.invalidate_caches()
    environment.torch_build.cache_clear()
    found = environment.torch_build().folder
    if found != tree.torch:
        raise SourceError(f"Python imports torch from {found} whatever its path says, so its files cannot be replaced")
    used = SourceInUse(
        word, str(source.folder), source.commit or source.state, source.name, len(tree.changed), str(tree.folder)
    )
    os.environ[VARIABLE] = json.dumps(used.__dict__)
