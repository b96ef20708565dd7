"""Packages of Debian and Ubuntu that a row needs besides its Python packages: `packages` in matrix.toml."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from matrix import Row


def install(row: Row) -> None:
    """Installs what is missing, on a machine with apt where this may be done without a password.

    Where it cannot be installed, the row itself says what it lacks.
    """
    if not (row.packages and shutil.which("apt-get")):
        return
    query = ["dpkg-query", "--show", *row.packages]
    if subprocess.run(query, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return
    privileged = [] if os.geteuid() == 0 else ["sudo", "-n"]
    for words in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", *row.packages]):
        command = [*privileged, "apt-get", *words]
        try:
            status = subprocess.run(
                command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False
            ).returncode
        except FileNotFoundError:  # no sudo
            status = 127
        if status:
            print(f"{row.name}: {shlex.join(command)} ended with status {status}", flush=True)
            return
