"""Writing files that are whole whatever happens: a lock between processes, temporary files, atomic replacement."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
_TEMPORARY = ".tmp"
_PATIENCE = 300  # seconds to wait for another process


@contextlib.contextmanager
def lock_folder(folder: Path, error: type[Exception]) -> Iterator[None]:
    """Holds the folder's lock, and clears what a killed process left. Raises `error` where that cannot be had."""
    lock = FileLock(folder / LOCK, timeout=_PATIENCE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as timeout:
        raise error(f"{folder}: another process has held {LOCK} for {_PATIENCE} s; is it alive?") from timeout
    except OSError as problem:
        raise error(f"{folder}: cannot be written to, nothing was stored: {problem}") from problem
    try:
        try:
            for leftover in folder.rglob(f".*{_TEMPORARY}"):
                leftover.unlink(missing_ok=True)  # whoever wrote it held this lock, and no longer does
        except OSError as problem:
            raise error(f"{folder}: cannot be written to, nothing was stored: {problem}") from problem
        yield
    finally:
        lock.release()


def write_atomically(path: Path, content: str) -> None:
    """Writes a file so that it is the old or the new one at every moment. Raises OSError; the old one then stays."""
    data = content.encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last through a crash of the machine, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
