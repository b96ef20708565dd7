"""Lines about the items that are recorded: how many are done, the time left, and which failed."""

from __future__ import annotations

import sys
import time
from collections import defaultdict

_SHOWN = 3  # names of items that failed in the same way
_SECONDS = 10.0  # between two lines


class Progress:
    """Lines on stderr: how many items are done, the time left, and how many failed."""

    def __init__(self, total: int, failed: str) -> None:
        """`failed`: what an item that failed is not, such as "not in the map"."""
        self._text_of_failed = failed
        self._total, self._done, self._failed = total, 0, defaultdict[str, list[str]](list)
        self._begin = self._shown = time.monotonic()

    def step(self, name: str, error: str) -> None:
        self._done += 1
        if error:
            self._failed[error].append(name)
        now = time.monotonic()
        if now - self._shown >= _SECONDS:
            self._shown = now
            left = (now - self._begin) / self._done * (self._total - self._done)
            print(f"{self._done:,} of {self._total:,} items, {left / 60:.0f} min left", file=sys.stderr, flush=True)

    @property
    def has_failed(self) -> bool:
        return bool(self._failed)

    def end(self, *, interrupted: bool) -> None:
        if interrupted:
            print(f"interrupted: {self._done:,} of {self._total:,} items are kept", file=sys.stderr)
        for error, names in sorted(self._failed.items(), key=lambda each: -len(each[1])):
            shown = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
            print(f"{self._text_of_failed}: {len(names):,} items raised {error}: {shown}", file=sys.stderr)
