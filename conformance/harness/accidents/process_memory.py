"""The memory of a process that runs items.

torch keeps 0.2 to 0.4 MB of each case that it has compiled (benchmarks/memory.py). After some thousand items a fresh
process runs the next ones, so a run of any length needs a bounded amount of memory.
"""

from __future__ import annotations

from pathlib import Path

#: A process may need so many MiB more than at its first item. A fresh one takes 5 to 10 seconds to begin.
LIMIT = 1536

_STATUS = Path("/proc/self/status")
_FIELD = "RssAnon:"


def used() -> int | None:
    """The MiB of memory that this process has, without the files that it maps; None where the system does not say."""
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return None
    sizes = [int(line.split()[1]) for line in lines if line.startswith(_FIELD)]  # in KiB
    return sizes[0] // 1024 if sizes else None


class MemoryLimit:
    """Why this process must not run another item, by its memory: LIMIT MiB above that of the first call."""

    _first: int | None = None

    def reason(self) -> str:
        """The reason; "" if the process may run another item."""
        now = used()
        if now is None:
            return ""
        if self._first is None:
            self._first = now
        grown = now - self._first
        return f"the process has grown by {grown:,} MiB" if grown >= LIMIT else ""
