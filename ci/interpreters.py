"""Finds the Pythons of this machine by version."""

from __future__ import annotations

import shutil
import subprocess
import sys

import bootstrap


def find_python(version: str) -> str | None:
    """Returns a Python of this version ("3.12"; "" for any) on this machine, or None."""
    # The base Python of a venv: a job must not run in the environment that the bootstrap made for tox.
    running = getattr(sys, "_base_executable", sys.executable)
    if version in ("", f"{sys.version_info[0]}.{sys.version_info[1]}"):
        return running
    found = shutil.which(f"python{version}")
    return found if found and _runs(found, version) else None


def nearest_python(version: str) -> tuple[str, str] | None:
    """Returns (version, path) of the supported Python nearest to `version`, the older of two; None if there is none."""
    wanted = int(version.partition(".")[2])
    minors = range(bootstrap.OLDEST[1], bootstrap.NEWEST[1] + 1)
    for minor in sorted(minors, key=lambda each: (abs(each - wanted), each)):
        if path := find_python(f"3.{minor}"):
            return f"3.{minor}", path
    return None


def _runs(path: str, version: str) -> bool:
    """Whether it starts and has this version: a script of pyenv stands for versions that are not switched on."""
    command = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == version
