"""Atomic writes: an interrupted run leaves the old file or the new file, never a partial one.

Processes that write into one folder take turns by a lock file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LOCK = ".lock"
_TEMPORARY = ".tmp"
_LOCK_TIMEOUT, _LOCK_PAUSE = 300, 0.05  # seconds


@contextlib.contextmanager
def lock_folder(folder: Path, error: type[Exception]) -> Iterator[None]:
    """Holds the folder's lock, and removes temporary files that a killed process left there.

    Creates the folder if needed. The file of the lock is gone afterwards: who commits the folder does not see it.
    Raises `error` if another process holds the lock for 5 minutes, or if the folder cannot be written to.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _acquired(path)
    except TimeoutError as timeout:
        raise error(
            f"{folder}: another process has held {LOCK} for {_LOCK_TIMEOUT} s: wait for it, or end it if it hangs"
        ) from timeout
    except OSError as problem:
        raise error(f"{folder}: cannot be written to, nothing was stored: {problem.strerror}") from problem
    try:
        try:
            for leftover in folder.rglob(f".*{_TEMPORARY}"):
                leftover.unlink(missing_ok=True)  # its writer held this lock, so that process has ended
        except OSError as problem:
            raise error(f"{folder}: cannot be written to, nothing was stored: {problem.strerror}") from problem
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # before the release: whoever waits for this file sees that it is gone, and makes another
        os.close(lock)


def _acquired(path: Path) -> int:
    """A descriptor of the file at `path`, which this process alone has locked. Raises TimeoutError and OSError."""
    end = time.monotonic() + _LOCK_TIMEOUT
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(descriptor)
                raise TimeoutError from None
            time.sleep(_LOCK_PAUSE)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file of a descriptor is still the one at `path`, and its last user has not removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def write_atomically(path: Path, content: str, *, survives_power_loss: bool = True) -> None:
    """Writes a text file (UTF-8): readers see the old content or the new content, never a part.

    `survives_power_loss`: waits until the disk has the content, which costs about 2 ms instead of 0.3 ms.
    Raises OSError; the old file then stays.
    """
    data = content.encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_atomically(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        if survives_power_loss:
            file.flush()
            os.fsync(file.fileno())
    if survives_power_loss:
        _sync_folder(path.parent)


def check_writable(path: Path) -> None:
    """Raises the OSError that `write_atomically` would raise now. Call it before long work. Leaves nothing behind."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = next(each for each in path.absolute().parents if each.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        error.filename = str(path)
        raise


@contextlib.contextmanager
def replaced_atomically(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`. Renames it to `path` at the end; after an error, removes it.

    For what is not text: links, and files that another program writes.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # what the user asked for
        raise


def _sync_folder(folder: Path) -> None:
    """Flushes the folder's entries to disk, so that the new name survives a crash; skipped where that fails."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
