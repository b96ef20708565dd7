"""Precompiled headers of C++ code are kept with what is compiled with them.

Inductor keeps them, 150 MB each, in a folder below the system's temporary one, whatever TORCHINDUCTOR_CACHE_DIR says:
clearing the suite's cache would leave them, and a run with a cold cache would find them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.capture.patching.patch import Patch


def folder() -> Path:
    """Where they are, for all workers and later runs (torch._inductor.runtime.runtime_utils, 2.11 to 2.15)."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    return Path(cache_dir(), "precompiled_headers")


def _headers(_original: Any) -> str:
    return str(folder())


def _locks(_original: Any) -> str:
    return str(folder() / "locks")


_WHY = "precompiled headers would lie in the system's temporary folder, whatever cache is cleared or named"
#: All the same without them, apart from the place.
PATCHES = [
    Patch("torch._inductor.codecache:_HEADER_DIR", _headers, _WHY, optional=True),
    Patch("torch._inductor.codecache:_HEADER_LOCK_DIR", _locks, _WHY, optional=True),
]
