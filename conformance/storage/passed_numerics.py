"""Which numerics passed before: a verdict for each digest, in the cache folder. harness/reuse makes the digests.

A verdict is one line of a text file. Each process appends to a file of its own, with one write for each line. So
workers never wait for each other, and a killed process leaves at most one incomplete line. Each line ends with a
checksum: what this module did not write completely is ignored. `merge` joins the files of earlier processes.

Verdicts are a cache: where they cannot be read or written, numerics are run.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from conformance import atomic_files

#: In the cache folder. The number is the version of the lines' format.
FOLDER = "passed_numerics-1"
#: A verdict counts for so long. After that the numerics are run again: what the digest misses cannot stay hidden.
MAX_AGE = timedelta(days=30)
#: `merge` keeps so many of the newest verdicts: ten runs of all items.
MAX_VERDICTS = 100_000
#: `merge` joins files that nobody has written for so many seconds, once there are so many.
_IDLE, _MANY_FILES = 3600.0, 20
_MERGED = "merged.txt"
_WITHDRAWN = "withdrawn"
#: Lines begin with the digest and the time, both of fixed length.
_DIGEST, _TIME = 64, len("2026-01-01T00:00:00.000000")


@dataclass(frozen=True)
class Verdict:
    """Numerics that passed. `how`: "native" or "emulated". `run`, `item`: their names. `time`: in UTC, ISO 8601."""

    how: str
    run: str
    item: str
    time: str

    def __str__(self) -> str:
        return f"{self.how}, in the run {self.run} of {self.time[:16].replace('T', ' ')} UTC"


class PassedNumerics:
    """The verdicts below a folder. The first look-up reads all files; later verdicts of other processes are not seen.

    A digest has 64 hexadecimal digits.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / f"{uuid.uuid4().hex}.txt"

    @functools.cached_property
    def _lines(self) -> dict[bytes, bytes]:
        return _newest_lines(_files(self.folder))

    def find(self, digest: str) -> Verdict | None:
        """The verdict for a digest; None if there is none, or if it is withdrawn or too old."""
        line = self._lines.get(digest.encode())
        return None if line is None else _verdict(line, _oldest())

    def add(self, digest: str, how: str, run: str, item: str) -> None:
        """Stores that numerics passed. It replaces the digest's earlier verdict."""
        self._append(digest, {"how": how, "run": run, "item": item})

    def withdraw(self, digest: str) -> None:
        """Makes earlier verdicts for the digest invalid."""
        self._append(digest, _WITHDRAWN)

    def _append(self, digest: str, content: object) -> None:
        line = _line(digest, content)
        self._lines[digest.encode()] = line
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, b"\n" + line + b"\n")  # a new line first: the last one may be incomplete
            finally:
                os.close(descriptor)


def merge(folder: Path, idle: float = _IDLE, most: int = MAX_VERDICTS) -> None:
    """Joins files that no process has written for `idle` seconds, and drops all but the newest `most` verdicts.

    Does nothing if there are few files, or if another process merges. A verdict that a process adds to one of these
    files meanwhile is lost.
    """
    with contextlib.suppress(OSError, Timeout):
        now = time.time()
        old = [path for path in _files(folder) if path.name != _MERGED and now - path.stat().st_mtime >= idle]
        if len(old) < _MANY_FILES:
            return
        with FileLock(folder / atomic_files.LOCK, timeout=0):
            lines = _newest_lines([folder / _MERGED, *old]).values()
            oldest = _oldest()
            kept = [line for line in lines if _content(line) is not None and _time(line).decode() >= oldest]
            kept = sorted(kept, key=_time)[-most:]
            text = b"\n".join([*kept, b""]).decode()
            atomic_files.write_atomically(folder / _MERGED, text, survives_power_loss=False)
            for path in old:
                path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))


def _newest_lines(files: Iterable[Path]) -> dict[bytes, bytes]:
    """Digest → its newest line. An incomplete line counts too: it may be a withdrawal."""
    newest: dict[bytes, bytes] = {}
    for file in files:
        try:
            data = file.read_bytes()
        except OSError:
            continue
        for line in data.split(b"\n"):
            digest = line[:_DIGEST]
            if len(line) > _DIGEST and (digest not in newest or _time(newest[digest]) <= _time(line)):
                newest[digest] = line
    return newest


def _oldest() -> str:
    """The time from which on verdicts count."""
    return _now(-MAX_AGE)


def _now(offset: timedelta = timedelta()) -> str:
    return (datetime.now(timezone.utc) + offset).strftime("%Y-%m-%dT%H:%M:%S.%f")


def _line(digest: str, content: object) -> bytes:
    text = f"{digest} {_now()} {json.dumps(content)}".encode("ascii")
    return text + b" " + _checksum(text)


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode()


def _time(line: bytes) -> bytes:
    return line[_DIGEST + 1 : _DIGEST + 1 + _TIME]


def _content(line: bytes) -> object:
    """What a line says about its digest; None for an incomplete line and for what this module did not write."""
    text, _, checksum = line.rpartition(b" ")
    if checksum != _checksum(text):
        return None
    try:
        return json.loads(text[_DIGEST + _TIME + 2 :])
    except ValueError:
        return None


def _verdict(line: bytes, oldest: str) -> Verdict | None:
    content, passed = _content(line), _time(line).decode("ascii", "replace")
    if not isinstance(content, dict) or passed < oldest:
        return None
    try:
        return Verdict(**content, time=passed)
    except TypeError:
        return None
