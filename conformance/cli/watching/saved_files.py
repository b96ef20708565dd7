"""The files whose saves count: those of torch, of this package, and of the cases; and a bell that rings for a save."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from conformance.errors import ConformanceError
from conformance.sources.torch_source import is_source

#: Times of the last change of content and of the file's entry, size, inode: a rename over a file changes one of them.
State = tuple[int, int, int, int]
States = Mapping[str, State]

#: Milliseconds. Saves that follow each other so fast are one, as those of `git checkout`; but not for longer than this.
_STEP, _LONGEST = 60, 400
#: Milliseconds between the looks of the thread at what it is told.
_LOOK = 500
#: Folders of this package without modules that a command imports.
_WITHOUT = {"__pycache__", "expected_code", "expected_binary", "expected_digests", "known_failures", "ops", "models"}


class WatchingError(ConformanceError, OSError):
    """The system cannot watch these files."""


class SavedFiles:
    """`torch`: the folder torch/ that is edited, or None where nobody edits it. `others`: files of cases, and modules
    that they import from the project.
    """

    def __init__(self, torch: Path | None, package: Path) -> None:
        self.torch = real(torch) if torch else None
        self._package = real(package)
        self.others: set[str] = set()

    def states(self) -> States:
        """The state of each file that is there. 3,000 files take 30 ms."""
        found = dict(_of_torch(self.torch, self.torch)) if self.torch else {}
        found.update(_of_package(self._package))
        for path in self.others:
            with contextlib.suppress(OSError):
                found[path] = _state(Path(path).stat())
        return found

    def counts(self, path: str) -> bool:
        """Whether a file belongs to torch or to this package, and is looked at without being in `others`."""
        roots = (self.torch, self._package) if self.torch else (self._package,)
        return any(is_below(path, root) for root in roots) and not (_WITHOUT & set(Path(path).parts))

    def folders(self, states: States) -> set[str]:
        """The folders that have the files, also those that are not there now."""
        folders = {path.rpartition(os.sep)[0] for path in [*states, *self.others]}
        return {folder for folder in folders if Path(folder).is_dir()}


def changed(old: States, new: States) -> set[str]:
    """The files that were saved, made or deleted."""
    return {path for path, _ in old.items() ^ new.items()}


def is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)


def real(path: str | Path) -> str:
    """The path without links in its folders. The file itself may be a link."""
    folder, _, name = str(Path(path).absolute()).rpartition(os.sep)
    return f"{_real_folder(folder)}{os.sep}{name}"


@functools.cache
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def _of_torch(folder: str, top: str) -> Iterator[tuple[str, State]]:
    """The files that `--torch-source` takes. Those of a build stay as they are."""
    with os.scandir(folder) as entries:
        for entry in entries:
            below = entry.path[len(top) + 1 :]
            if entry.is_dir():
                if entry.name != "__pycache__" and is_source(f"{below}/x.py"):
                    yield from _of_torch(entry.path, top)
            elif is_source(below):
                with contextlib.suppress(OSError):
                    yield entry.path, _state(entry.stat())


def _of_package(folder: str) -> Iterator[tuple[str, State]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in _WITHOUT:
                    yield from _of_package(entry.path)
            elif entry.name.endswith((".py", ".toml", ".cpp")):
                with contextlib.suppress(OSError):
                    yield entry.path, _state(entry.stat())


def _state(stat: os.stat_result) -> State:
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


class SaveBell:
    """Rings when something happens in folders: a thread waits for it, and writes into a pipe.

    It rings for a signal as well: the system may give that to the thread, and `select` would not return.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._folders: frozenset[str] = frozenset()
        self._error = ""

    def fileno(self) -> int:
        return self._reading

    def watch(self, folders: Iterable[str]) -> None:
        """Watches these folders instead of others. Then it rings once: nobody has watched for a moment."""
        if frozenset(folders) == self._folders:
            return
        self._end_thread()
        self._folders, self._stop = frozenset(folders), threading.Event()
        self._thread = threading.Thread(target=self._wait, args=(self._folders, self._stop), daemon=True)
        self._thread.start()

    def clear(self) -> None:
        """Raises WatchingError where the folders cannot be watched."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 1 << 16)
        if self._error:
            raise WatchingError(self._error)

    def close(self) -> None:
        self._end_thread()
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reading)
        os.close(self._writing)

    def _end_thread(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _wait(self, folders: frozenset[str], stop: threading.Event) -> None:
        from watchfiles import watch

        is_first = True
        try:
            for changes in watch(
                *folders,
                watch_filter=None,
                debounce=_LONGEST,
                step=_STEP,
                stop_event=stop,
                rust_timeout=_LOOK,
                yield_on_timeout=True,
                recursive=False,
                raise_interrupt=False,
            ):
                if changes or is_first:
                    os.write(self._writing, b"x")
                is_first = False
        except (OSError, RuntimeError) as error:  # watchfiles has an error of its own
            self._error = f"the files cannot be watched: {error}"
            os.write(self._writing, b"x")
