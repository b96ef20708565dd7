"""Keeps Inductor's precompiled C++ headers in the suite's cache.

Inductor keeps them, 150 MB each, in the system's temporary folder, even if TORCHINDUCTOR_CACHE_DIR is set. Clearing the
suite's cache would not delete them, and a run with an empty cache would still use them.

Where other Python files are laid over torch, headers and libraries are still those of the installed torch. With their
real paths, compilers find what is compiled already.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.capture.patching.patch import Patch
from conformance.devices.environment import torch_build


def folder() -> Path:
    """The folder of the precompiled headers, shared by all workers and later runs."""
    from torch._inductor.runtime.runtime_utils import cache_dir  # the only way to Inductor's cache

    return Path(cache_dir(), "precompiled_headers")


def _header_folder(_original: Any) -> str:
    return str(folder())


def _lock_folder(_original: Any) -> str:
    return str(folder() / "locks")


_WHY = "precompiled headers would go to the system's temporary folder, not to the suite's cache"
_WHY_REAL = "each laid tree would have precompiled headers of its own, 150 MB, and none of the kernels built before"
#: Optional: they only change the folder.
PATCHES = [
    Patch("torch._inductor.codecache:_HEADER_DIR", _header_folder, _WHY, optional=True),
    Patch("torch._inductor.codecache:_HEADER_LOCK_DIR", _lock_folder, _WHY, optional=True),
]


def laid_patches() -> list[Patch]:
    """Where other Python files are laid over torch: the paths of the installed torch. Else none."""
    build = torch_build()
    if build.binaries == build.folder:
        return []
    return [
        Patch("torch.utils.cpp_extension:_TORCH_PATH", lambda _: str(build.binaries), _WHY_REAL, optional=True),
        Patch(
            "torch.utils.cpp_extension:TORCH_LIB_PATH", lambda _: str(build.binaries / "lib"), _WHY_REAL, optional=True
        ),
    ]
