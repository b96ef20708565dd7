"""Garbage collection of a process that runs items. Python's own settings cost 5 to 10 % of an item's time.

A compile makes many objects, and nearly all of them are freed without a collection. Python looks at the youngest
objects after 700 new ones. Dynamo collects the two younger generations after each compile anyway.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
from collections.abc import Iterator

#: So many new objects start a collection: more than most compiles leave.
THRESHOLD = 50_000
#: After so many collections of younger objects, an item ends with a full one. Dynamo makes one for each compile.
FULL_AFTER = 25


@contextlib.contextmanager
def off_while_loading() -> Iterator[None]:
    """Switches garbage collection off while torch is imported or tests are collected: nearly all that they make stays.

    This saves a third of the time of importing Inductor, a fifth of collecting all items, and a third of each full
    collection while compiling: later collections skip the objects that exist by then. Afterwards, collections start
    later than by default.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
        atexit.unregister(_unfreeze_for_nanobind)
        atexit.register(_unfreeze_for_nanobind)
        gc.set_threshold(THRESHOLD, 10, 10)
    finally:
        if enabled:
            gc.enable()


def _unfreeze_for_nanobind() -> None:
    """nanobind, which a Triton may use, reports what is frozen at the end as leaks. Without it, Python ends sooner."""
    if any(each.__module__ == "nanobind" for each in type.__subclasses__(type)):
        gc.unfreeze()


def collect_if_due() -> None:
    """Makes a full collection if enough items have ended since the last one. Call it at the end of an item."""
    if gc.isenabled() and gc.get_count()[2] >= FULL_AFTER:
        gc.collect()
