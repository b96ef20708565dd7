"""The state of files: their size and the time of their last change, or their text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path


def file_state(path: str | Path) -> str:
    """Size and time of the last change; "none" for a file that cannot be read."""
    try:
        return _state(Path(path).stat())
    except OSError:
        return "none"


def folder_states(folder: Path, without: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """(path below the folder, state) for each file below a folder, sorted. `without`: names of folders to leave out.

    Follows links, but enters each folder only once. 12,000 files take 0.1 s.
    """
    return iter(sorted(_unsorted_states(str(folder), "", {"__pycache__", *without}, set())))


def _unsorted_states(
    folder: str, prefix: str, without: Collection[str], entered: set[tuple[int, int]]
) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name in without:
                    continue
                if entry.is_symlink():
                    state = entry.stat()
                    if (state.st_dev, state.st_ino) in entered:
                        continue
                    entered.add((state.st_dev, state.st_ino))
                yield from _unsorted_states(entry.path, f"{prefix}{entry.name}/", without, entered)
            else:
                yield f"{prefix}{entry.name}", file_state(entry.path) if entry.is_symlink() else _state(entry.stat())


def _state(stat: os.stat_result) -> str:
    return f"{stat.st_size} {stat.st_mtime_ns}"


def digest_of(parts: Iterable[str]) -> str:
    """SHA-256 of texts. Their lengths count too: no other list of texts has the same digest."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
