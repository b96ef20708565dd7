"""The size of the cache folder: compiled kernels, extensions, precompiled headers and verdicts of numerics.

Once a day, the end of a run deletes files that nobody has used for long, and the oldest ones while all files together
are larger than a limit. A file that was used lately stays in any case: another run may need it now.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.sources import laid_tree

#: Files that were not used for this long are deleted, in seconds.
MAX_AGE = 30 * 86400.0
#: The oldest files are deleted while all together are larger, in bytes.
MAX_SIZE = 20 * 2**30
#: Files that were used this lately stay, in seconds.
IN_USE = 86400.0
#: How often files are looked through, in seconds.
_INTERVAL = 86400.0
#: This file's time is the time of the last look.
_MARKER = "pruned"


@dataclass(frozen=True)
class _File:
    used: float
    size: int
    path: str


def prune_if_due(folder: Path, now: float | None = None) -> int:
    """Prunes the cache folder if the last time is long ago. Returns the number of deleted files."""
    now = time.time() if now is None else now
    marker = folder / _MARKER
    with contextlib.suppress(OSError):
        if now - marker.stat().st_mtime < _INTERVAL:
            return 0
    with contextlib.suppress(OSError):
        marker.touch()
        os.utime(marker, (now, now))
        return prune(folder, now)
    return 0


def prune(folder: Path, now: float, *, max_size: int = MAX_SIZE) -> int:
    """Deletes old files of the cache folder, then empty folders. Returns the number of deleted files."""
    files = sorted(_files(folder), key=lambda each: each.used)
    size, deleted = sum(each.size for each in files), 0
    for each in files:
        age = now - each.used
        if age <= IN_USE or (age <= MAX_AGE and size <= max_size):
            break
        with contextlib.suppress(OSError):
            Path(each.path).unlink()
            size, deleted = size - each.size, deleted + 1
    if deleted:
        for path, _, _ in os.walk(folder, topdown=False):
            if f"/{laid_tree.FOLDER}/" in path:
                continue
            with contextlib.suppress(OSError):  # it is not empty
                Path(path).rmdir()
    return deleted


def _files(folder: Path) -> Iterator[_File]:
    """The files below a folder. A file was used when it was written or, as far as the system notes that, read."""
    for path, folders, names in os.walk(folder):
        if path == str(folder) and laid_tree.FOLDER in folders:
            folders.remove(laid_tree.FOLDER)  # its trees are deleted as wholes, by laid_tree
        for name in names:
            full = f"{path}/{name}"
            with contextlib.suppress(OSError):
                state = os.lstat(full)
                yield _File(max(state.st_mtime, state.st_atime), state.st_size, full)
