"""The ini options of a project, read without running pytest's tests."""

import subprocess
import sys

import pytest

from conformance.settings import SettingsError

INI = """
[tool.pytest]
addopts = ["--no-such-option"]
required_plugins = ["no-such-plugin"]
conformance_targets = ["cpu_avx2", "cuda_sm90"]
conformance_strict_torch = "2.15"
"""

READ = """
import sys
from pathlib import Path
from conformance.harness.configuration.project_settings import project_settings
print(project_settings(Path(sys.argv[1])))
"""


def read(folder):
    """In a process of its own: pytest runs inside of it."""
    return subprocess.run([sys.executable, "-c", READ, str(folder)], check=False, capture_output=True, text=True)


def test_read_from_a_folder_below(tmp_path):
    (tmp_path / "pyproject.toml").write_text(INI)
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not loaded')")
    (tmp_path / "ops").mkdir()
    ran = read(tmp_path / "ops")
    assert "targets='cpu_avx2,cuda_sm90'" in ran.stdout
    assert "strict_torch='2.15'" in ran.stdout
    assert ran.stderr == ""
    assert len(ran.stdout.splitlines()) == 1


def test_nothing_set(tmp_path):
    assert read(tmp_path).stdout.startswith("ProjectSettings(targets=None, checks=None, drift=''")


def test_a_wrong_value(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_drift = maybe\n")
    ran = read(tmp_path)
    assert f"{SettingsError.__name__}: " in ran.stderr
    assert "pytest.ini: conformance_drift is not report or fail: 'maybe'" in ran.stderr


@pytest.mark.parametrize("text", ["[pytest", "[tool:pytest]\n["])
def test_a_file_that_pytest_cannot_read(tmp_path, text):
    (tmp_path / "pytest.ini").write_text(text)
    assert "SettingsError: pytest cannot read the ini file of" in read(tmp_path).stderr
