"""The cache folder: where compiled objects and the pretended device are kept. Nothing here imports torch."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from conformance.devices.environment import PreparationError, torch_build


def cache_folder() -> Path:
    """The folder for compiled objects and the pretended device: CONFORMANCE_CACHE if that is set, else the user's cache
    folder, else (if that cannot be written to) a temporary folder.

    Raises PreparationError if CONFORMANCE_CACHE is set and cannot be written to.
    """
    if text := os.environ.get("CONFORMANCE_CACHE"):
        if problem := _write_problem(Path(text)):
            raise PreparationError(f"CONFORMANCE_CACHE={text} cannot be written to ({problem}): name another folder")
        return Path(text)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "conformance"
    return Path(tempfile.gettempdir()) / f"conformance-{os.getuid()}" if _write_problem(folder) else folder


def _write_problem(folder: Path) -> str:
    """Why the folder cannot be written to, "" if it can. Creates the folder if needed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def set_cache_variables() -> None:
    """Points Inductor's and Triton's caches to a folder for this torch version, unless the variables are set already.

    Workers and later runs share these compiled objects; other programs that use Inductor do not.
    """
    folder = cache_folder() / f"torch-{torch_build().version}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))
