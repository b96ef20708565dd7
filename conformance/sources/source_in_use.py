"""The source whose Python files this process and its children import as torch."""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import dataclass
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


def use_source(word: str, option: str) -> None:
    """Lets this process and its children import torch with the Python files of a source. Call it before that import.

    Raises SourceError, GitError and LayError, and MisfitError where they do not fit the installed binaries.
    """
    current = source_in_use()
    if current is not None and current.word == word and sys.path[:1] == [current.folder]:
        return
    if current is not None and current.folder in sys.path:
        if current.word == word:
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
    importlib.invalidate_caches()
    environment.torch_build.cache_clear()
    found = environment.torch_build().folder
    if found != tree.torch:
        raise SourceError(f"Python imports torch from {found} whatever its path says, so its files cannot be replaced")
    used = SourceInUse(
        word, str(source.folder), source.commit or source.state, source.name, len(tree.changed), str(tree.folder)
    )
    os.environ[VARIABLE] = json.dumps(used.__dict__)
