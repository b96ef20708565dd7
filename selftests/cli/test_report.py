"""`report`: what it writes, and what it says of wrong arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.cli.main import main
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    written = Run(tmp_path / "run")
    written.begin({"torch": "2.13.0", "triton": "", "targets": ["cpu_avx2"]})
    passed = {"numerics": CheckResult(Outcome.PASSED)}
    written.write_item(ItemRecord("flip/h", "cpu_avx2", "native", "2.13.0", "", text="kernels  none\n", checks=passed))
    return written


def test_it_writes_one_file(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.html"
    assert main(["report", str(run.folder), "-o", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{file}: ")
    assert out.endswith("1 item of 1 run\n")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "conformance", "report", run.folder, "-o", tmp_path / "file" / "report.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path / 'file'}: File exists\n"


def test_an_unknown_run_and_a_wrong_file(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.html"
    assert main(["report", "nosuch", "-o", str(file)]) == 2
    assert "there is no run 'nosuch'" in capsys.readouterr().err
    assert main(["report", str(run.folder), *["--bench", "a.json"] * 3]) == 2
    assert "--bench compares two files at most, and 3 are given" in capsys.readouterr().err
    assert main(["report", str(run.folder), "-o", str(file), "--bench", str(run.folder / "run.json")]) == 2
    assert "was not written by `bench --json`" in capsys.readouterr().err
    assert not file.exists()
