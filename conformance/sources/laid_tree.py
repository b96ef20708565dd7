"""A laid tree: a folder with the installed torch, over which the Python files of a source are laid.

It consists of links to the installed torch, and of the files that differ. The installed torch is only read. Python
keeps compiled modules of what is the same beside the installed torch, and of what differs in the tree.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from conformance import atomic_files
from conformance.devices.cache_folder import cache_folder
from conformance.devices.environment import TorchBuild
from conformance.errors import ConformanceError
from conformance.sources.torch_source import TorchSource, installed_files

#: Below the cache folder.
FOLDER = "torch_sources"
#: Trees that were not used for this long are deleted when another is laid, in seconds; and the oldest beyond a number.
_MAX_AGE, _MAX_TREES = 14 * 86400.0, 60
#: Beside torch/ in a tree: what differs from the installed torch. Its time is that of the last use.
DIFFERENCES = "differences.json"
#: Folders beside the installed torch in which its libraries look for others, by a path relative to their own.
_LIBRARIES = ("nvidia", "cusparselt", "torch.libs", "triton")
#: Changes when the layout of a tree changes.
_LAYOUT = "1"


class LayError(ConformanceError, OSError):
    """A tree cannot be written."""


@dataclass(frozen=True)
class LaidTree:
    """`folder`: comes first on the path of Python. `changed`, `removed`: paths below torch/, against the installed."""

    folder: Path
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def torch(self) -> Path:
        return self.folder / "torch"

    def note(self, name: str) -> str:
        """A text that was kept with the tree; "" without one."""
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def keep_note(self, name: str, text: str) -> None:
        with contextlib.suppress(OSError):
            atomic_files.write_atomically(self.folder / name, text, survives_power_loss=False)


def lay(source: TorchSource, build: TorchBuild) -> LaidTree:
    """The tree of a source over an installed torch; laid now, unless it is there already.

    Raises GitError, and LayError where the cache folder cannot be written to.
    """
    installed = installed_files(build.folder)
    changed = tuple(path for path, blob in source.files.items() if installed.get(path) != blob)
    suffixes = {PurePosixPath(path).suffix for path in source.files}  # a folder may hold Python files alone
    removed = tuple(path for path in installed if path not in source.files and PurePosixPath(path).suffix in suffixes)
    return lay_files(build, {path: source.files[path] for path in changed}, removed, source)


def lay_files(build: TorchBuild, changed: Mapping[str, str], removed: tuple[str, ...], source: TorchSource) -> LaidTree:
    """The same, for given differences. `changed`: path below torch/ → id of its content, which `source` can read."""
    state = (build.folder / "__init__.py").stat()
    identity = [_LAYOUT, str(build.folder), build.version, str(state.st_mtime_ns), *removed, *map(str, changed.items())]
    name = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:20]
    folder = cache_folder().absolute() / FOLDER / name
    tree = LaidTree(folder, tuple(changed), removed)
    with contextlib.suppress(OSError):
        os.utime(folder / DIFFERENCES)
        return tree
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        delete_unused(folder.parent)
        temporary = Path(tempfile.mkdtemp(prefix=".laying-", dir=folder.parent))
        try:
            _Laying(build.folder, temporary / "torch", set(changed), set(removed)).lay_folder(PurePosixPath())
            for path, content in zip(changed, source.read(changed), strict=True):
                (temporary / "torch" / path).write_bytes(content)
            for library in _LIBRARIES:
                if (beside := build.folder.parent / library).is_dir():
                    (temporary / library).symlink_to(beside)
            (temporary / DIFFERENCES).write_text(json.dumps({"changed": list(changed), "removed": list(removed)}))
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        if not (folder / DIFFERENCES).exists():  # else another process has laid the same tree in the meantime
            raise LayError(f"{folder.parent} cannot be written to: {error.strerror or error}") from error
    return tree


def lay_apart(tree: LaidTree, folder: Path) -> None:
    """Lays the same in another folder, for one process that changes it with `lay_place`."""
    installed = _installed_torch(tree.torch)
    _Laying(installed, folder / "torch", set(tree.changed), set(tree.removed)).lay_folder(PurePosixPath())
    for path in tree.changed:
        shutil.copyfile(tree.torch / path, folder / "torch" / path)
    for library in _LIBRARIES:
        if (beside := installed.parent / library).is_dir():
            (folder / library).symlink_to(beside)


def lay_place(torch: Path, path: str) -> None:
    """Makes room for one file in a tree: no folder above it remains a link. `torch`: in the tree. `path`: below it."""
    for folder in reversed(PurePosixPath(path).parents):
        if (torch / folder).is_symlink():
            (torch / folder).unlink()
            _Laying(_installed_torch(torch), torch, {path}, set()).lay_folder(folder)
            return


def _installed_torch(torch: Path) -> Path:
    """The installed torch of a tree."""
    return (torch / "lib").resolve().parent


class _Laying:
    """Links folders of the installed torch that are the same as wholes, and the files of those that are not."""

    def __init__(self, installed: Path, tree: Path, changed: set[str], removed: set[str]) -> None:
        self._installed, self._tree = installed, tree
        self._other = changed | removed
        self._folders = {str(parent) for path in self._other for parent in PurePosixPath(path).parents}

    def lay_folder(self, path: PurePosixPath) -> None:
        installed, tree = self._installed / path, self._tree / path
        tree.mkdir()
        for entry in sorted(os.scandir(installed), key=lambda each: each.name) if installed.is_dir() else ():
            below = path / entry.name
            if entry.name == "__pycache__":
                self._link_compiled(path)
            elif entry.is_dir() and str(below) in self._folders:
                self.lay_folder(below)
            elif str(below) not in self._other:
                (tree / entry.name).symlink_to(entry.path)
        for new in sorted(each for each in self._folders if PurePosixPath(each).parent == path and each != "."):
            if not (self._tree / new).exists():
                self.lay_folder(PurePosixPath(new))

    def _link_compiled(self, path: PurePosixPath) -> None:
        """Links the compiled modules of files that are the same. Python replaces such a link and never writes to it."""
        other = {PurePosixPath(each).stem for each in self._other if PurePosixPath(each).parent == path}
        folder = self._tree / path / "__pycache__"
        folder.mkdir()
        for entry in os.scandir(self._installed / path / "__pycache__"):
            if entry.name.partition(".")[0] not in other:
                (folder / entry.name).symlink_to(entry.path)


def delete_unused(folder: Path, now: float | None = None) -> int:
    """Deletes trees that nobody used for long, and the oldest ones beyond a number; returns how many."""
    now = time.time() if now is None else now
    used = []
    for tree in folder.iterdir():
        with contextlib.suppress(OSError):
            used.append(((tree / DIFFERENCES).stat().st_mtime, tree))
    used.sort(reverse=True)
    old = [tree for number, (time_, tree) in enumerate(used) if number >= _MAX_TREES or now - time_ > _MAX_AGE]
    for tree in old:
        shutil.rmtree(tree, ignore_errors=True)
    return len(old)
