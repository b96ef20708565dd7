"""A live tree: a tree laid for one process, which follows the files of a source as they are saved."""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from conformance.sources.laid_tree import DIFFERENCES, LaidTree, lay_apart, lay_place
from conformance.sources.source_in_use import put_first, source_in_use
from conformance.sources.torch_source import parse_source


class LiveTree:
    """`source`: the torch/ that is edited. `torch`: the torch/ that Python imports, in `folder`."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder, self.torch = source, folder, folder / "torch"

    def different(self, paths: Iterable[str]) -> list[str]:
        """The paths below torch/ whose content is not that of the source."""
        _, differing, failed = filecmp.cmpfiles(self.source, self.torch, list(paths), shallow=False)
        return [*differing, *failed]

    def update(self, paths: Iterable[str]) -> None:
        """Copies files of the source into the tree, and removes those that the source no longer has.

        `paths`: below torch/. A file that vanishes meanwhile is removed.
        """
        for path in paths:
            file = self.torch / path
            lay_place(self.torch, path)
            for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
                compiled.unlink()
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(f".{file.name}.new")
            try:
                shutil.copyfile(self.source / path, temporary)
                temporary.replace(file)
            except FileNotFoundError:
                file.unlink(missing_ok=True)


def use_live_tree(option: str, folder: Path) -> LiveTree | None:
    """Lets this process import torch from a live tree of the source in use. None for a commit, and without a source.

    `folder`: an empty one for the tree. Raises LayError, and OSError where the folder cannot be written to.
    """
    used = source_in_use()
    if used is None or (source := parse_source(used.word, option)).commit:
        return None
    differences = json.loads(Path(used.folder, DIFFERENCES).read_text(encoding="utf-8"))
    laid = LaidTree(Path(used.folder), tuple(differences["changed"]), tuple(differences["removed"]))
    lay_apart(laid, folder)
    with contextlib.suppress(OSError):
        os.utime(laid.folder / DIFFERENCES)
    put_first(LaidTree(folder, laid.changed, laid.removed), used.word, source)
    return LiveTree(source.folder / "torch", folder)
