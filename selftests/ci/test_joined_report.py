"""ci/report.py: one report of the artifacts of several jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run

SCRIPT = Path(__file__).parents[2] / "ci" / "report.py"


def _run(folder: Path, target: str, time: int) -> None:
    run = Run(folder)
    run.begin({"torch": "2.13.0", "triton": "", "targets": [target]})
    checks = {"numerics": CheckResult(Outcome.PASSED)}
    run.write_item(ItemRecord("flip/h", target, "native", "2.13.0", "", text="kernels  none\n", checks=checks))
    os.utime(folder / "run.json", (time, time))


def _report(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_it_joins_the_last_run_of_each_job(tmp_path: Path) -> None:
    _run(tmp_path / "jobs" / "cpu" / "runs" / "20261101T000000-1", "cpu_neon", 1)
    _run(tmp_path / "jobs" / "cpu" / "runs" / "20261102T000000-1", "cpu_avx2", 2)
    _run(tmp_path / "jobs" / "gpu" / "runs" / "20261101T000000-9", "cuda_sm90", 1)
    (tmp_path / "jobs" / "lint").mkdir()
    summary = tmp_path / "summary.md"
    done = _report(tmp_path / "jobs", "-o", tmp_path / "site", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("2 items of 2 runs\n")
    assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    text = summary.read_text(encoding="utf-8")
    assert "cpu\\_avx2" in text
    assert "cuda\\_sm90" in text
    assert "cpu\\_neon" not in text


def test_without_a_run_it_says_so(tmp_path: Path) -> None:
    done = _report(tmp_path, "-o", tmp_path / "site")
    assert done.returncode == 2
    assert f"{tmp_path} holds no run" in done.stderr
    assert not (tmp_path / "site").exists()
