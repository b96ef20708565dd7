"""Builds the device's C++ once for each torch and Python, into a folder that the user may write to."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils import cpp_extension

_SOURCES = Path(__file__).with_name("csrc")


def load_library() -> None:
    """Loads the library; the first call builds it, which takes a minute. Raises RuntimeError if that fails."""
    texts = sorted(_SOURCES.iterdir())
    key = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for path in texts:
        key.update(path.read_bytes())
    folder = _cache_folder() / f"torch_acme-{key.hexdigest()[:16]}"
    library = folder / "acme.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not library.exists():
                _build([path for path in texts if path.suffix == ".cpp"], folder, library)
    torch.ops.load_library(str(library))


def _build(sources: list[Path], folder: Path, library: Path) -> None:
    """Writes to a file of another name, and moves it when it is complete: nobody can load a part of a library."""
    compiler = os.environ.get("CXX", "g++")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        built = Path(temporary, library.name)
        command = [compiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-w", *map(str, sources), "-o", str(built)]
        command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
        command += [f"-I{path}" for path in cpp_extension.include_paths()]
        command += [f"-L{path}" for path in cpp_extension.library_paths()]
        command += ["-ltorch", "-ltorch_cpu", "-lc10"]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise RuntimeError(f"torch_acme is C++, and there is no compiler {compiler}: install g++") from None
        if result.returncode:
            raise RuntimeError(f"torch_acme cannot be built:\n{result.stderr}")
        built.replace(library)


def _cache_folder() -> Path:
    """ACME_CACHE, else the user's cache folder, else the folder for temporary files."""
    if text := os.environ.get("ACME_CACHE"):
        return Path(text)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "torch_acme"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / f"torch_acme-{os.getuid()}"
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
