"""Finds the Pythons of this machine by version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import bootstrap


def find_python(version: str) -> str | None:
    """Returns a Python of this version ("3.12"; "" for any) on this machine, or None.

    The running one if it has this version, else that of the path, else one that pyenv installed and did not switch on.
    """
    # The base Python of a venv: a job must not run in the environment that the bootstrap made for tox.
    running = getattr(sys, "_base_executable", sys.executable)
    if version in ("", f"{sys.version_info[0]}.{sys.version_info[1]}"):
        return running
    of_path = shutil.which(f"python{version}")
    candidates = [*([of_path] if of_path else []), *_of_pyenv(version)]
    return next((path for path in candidates if _runs(path, version)), None)


def nearest_python(version: str) -> tuple[str, str] | None:
    """Returns (version, path) of the supported Python nearest to `version`, the older of two; None if there is none."""
    wanted = int(version.partition(".")[2])
    minors = range(bootstrap.OLDEST[1], bootstrap.NEWEST[1] + 1)
    for minor in sorted(minors, key=lambda each: (abs(each - wanted), each)):
        if path := find_python(f"3.{minor}"):
            return f"3.{minor}", path
    return None


def _of_pyenv(version: str) -> list[str]:
    """The Pythons of this version below pyenv's root, the newest first."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    names = [path.name for path in versions.glob(f"{version}.*")]
    patches = sorted(
        (int(name.rpartition(".")[2]) for name in names if re.fullmatch(r"\d+\.\d+\.\d+", name)), reverse=True
    )
    python = [versions / f"{version}.{patch}" / "bin" / f"python{version}" for patch in patches]
    return [str(path) for path in python if path.exists()]


def _runs(path: str, version: str) -> bool:
    """Whether it starts and has this version: a script of pyenv stands for versions that are not switched on."""
    command = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == version
