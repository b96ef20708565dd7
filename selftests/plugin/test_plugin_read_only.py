"""A project, a home folder and /dev/shm that cannot be written to: a run needs a temporary folder alone."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from suites import NATIVE, SCALE, Suite, environment, started

READ_ONLY = """
set -e
for folder in "$PWD" "$HOME"; do
    mount --bind "$folder" "$folder"
    mount -o remount,bind,ro "$folder"
done
mount -t tmpfs -o ro none /dev/shm
cd "$PWD"
for folder in "$PWD" "$HOME" /dev/shm; do
    if touch "$folder/here" 2>/dev/null; then exit 99; fi
done
exec "$@"
"""
UNSHARE = ("unshare", "--mount", "--map-root-user", "sh", "-c", READ_ONLY, "sh")


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_read_only(tmp_path):
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE[:3], "true"], check=False).returncode:
        pytest.skip("this machine gives no mounts of one's own")
    suite = Suite(tmp_path / "project")
    suite.write("ops/test_scale.py", SCALE)
    for folder in ("home", "temporary"):
        (tmp_path / folder).mkdir()
    variables = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    chosen = ("--target", NATIVE, "--checks", "numerics,requirements", "--fresh", "-n", "2")
    process = started(
        UNSHARE[0], suite.root, environment(variables), *UNSHARE[1:], sys.executable, "-m", "pytest", *chosen
    )
    text = process.communicate(timeout=300)[0]
    assert process.returncode == 0, text
    assert "2 items = 2 passed" in text
    assert f"{suite.root}/.conformance/runs cannot be written to: this run is in {tmp_path}/temporary/" in text
    assert not (suite.root / ".conformance").exists()
