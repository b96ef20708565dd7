"""The files of torch whose lines are recorded: what decides which code Inductor generates."""

from __future__ import annotations

import functools

#: Below torch/: folders and files.
WATCHED = (
    "_inductor/",
    "_decomp/",
    "_refs/",
    "_prims/",
    "_prims_common/",
    "_meta_registrations.py",
)
#: Files below these run with generated code, or serve people. A capture does not execute what an edit of them changes.
_OTHERS = (
    "_inductor/compile_worker/",
    "_inductor/runtime/",
    "_inductor/autotune_process.py",
    "_inductor/debug.py",
    "_inductor/remote_cache.py",
    "_inductor/metrics.py",
    "_inductor/analysis/",
    "_inductor/fuzzer.py",
)


@functools.cache
def is_watched(path: str) -> bool:
    """Whether lines of a file are recorded. `path`: below torch/."""
    return path.endswith(".py") and path.startswith(WATCHED) and not path.startswith(_OTHERS)
