"""ci/report.py: one report of the artifacts of several jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run

SCRIPT = Path(__file__).parents[2] / "ci" / "report.py"


def _run(folder: Path, target: str, time: int, **description: object) -> None:
    run = Run(folder)
    run.begin({"torch": "2.13.0", "triton": "", "targets": [target], **description})
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
    assert {path.name for path in (tmp_path / "site").iterdir()} == {"index.html", "report.json", "junit.xml"}
    text = summary.read_text(encoding="utf-8")
    assert "**2 items = 2 passed**" in text
    assert "cpu\\_neon" not in text


def test_runs_with_options_of_inductor_have_a_page_of_their_own(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    _run(jobs / "all" / "runs" / "1", "cpu_avx2", 1)
    for number, backend in enumerate(("halide", "pallas")):
        _run(jobs / backend / "runs" / backend, "cpu_avx2", number, inductor_config={"cpu_backend": backend})
    summary = tmp_path / "summary.md"
    done = _report(jobs, "-o", tmp_path / "site", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    pages = {path.name for path in (tmp_path / "site").glob("*.html")}
    assert pages == {"index.html", "halide.html", "pallas.html"}
    assert summary.read_text(encoding="utf-8").count("**1 item = 1 passed**") == 3
    alone = _report(jobs / "halide" / "runs" / "halide", "-o", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    assert (tmp_path / "alone" / "index.html").exists()


def test_without_a_run_it_says_so(tmp_path: Path) -> None:
    done = _report(tmp_path, "-o", tmp_path / "site")
    assert done.returncode == 2
    assert f"{tmp_path} holds no run" in done.stderr
    assert not (tmp_path / "site").exists()


def test_a_run_that_cannot_be_read_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    _run(jobs / "all-2.13" / "runs" / "20261101T000000-1", "cpu_avx2", 1)
    _run(jobs / "all-2.11" / "runs" / "20261101T000000-1", "cpu_avx2", 1)
    (jobs / "all-2.11" / "runs" / "20261101T000000-1" / "items" / "flip" / "h-cpu_avx2.json").write_text("{")
    (jobs / "all-2.15" / "runs" / "20261101T000000-1").mkdir(parents=True)
    (jobs / "all-2.15" / "runs" / "20261101T000000-1" / "run.json").write_text("")
    Run(jobs / "cpu-2.13" / "runs" / "20261101T000000-1").begin({"torch": "2.13.0", "triton": "", "targets": []})
    (jobs / "ipex-2.8").mkdir()
    summary = tmp_path / "summary.md"
    summary.write_text("of another step\n", encoding="utf-8")
    done = _report(jobs, "-o", tmp_path / "site", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert done.stdout.endswith("1 item of 1 run\n")
    for job in ("all-2.11", "all-2.15", "cpu-2.13", "ipex-2.8", "cpu-arm-2.13"):
        assert f"not in the report: {job}: " in done.stderr
    assert "cuda-2.13" not in done.stderr, "a repository may have no such machine"
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("of another step\n> [!CAUTION]\n> The report is not complete:\n")
    assert "> - `ipex-2.8: the job left no run`" in text
    assert "**1 item = 1 passed**" in text


def test_two_runs_of_the_same_items_count_once(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two")):
        _run(tmp_path / name, "cpu_avx2", number)
    done = _report(tmp_path / "one", tmp_path / "two", "-o", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("1 item of 2 runs\n")


def test_a_run_of_another_machine_is_compared_with_what_is_stored_here(tmp_path: Path) -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    import relocated_runs

    made, here = Path("/elsewhere/checkout"), tmp_path / "checkout"
    run = Run(tmp_path / "run")
    run.begin({"torch": "2.13.0", "triton": "", "targets": ["cpu_avx2"], "root": str(made)})
    run.write_selected({"test_h": "flip/h-cpu_avx2", "test_v": "flip/v-cpu_avx2"})
    run.write_item(
        ItemRecord("flip/h", "cpu_avx2", "native", "2.13.0", str(made / "code"), file=str(made / "test_h.py"))
    )
    copy = Run(relocated_runs.relocated(run.folder, here, tmp_path / "copy"))
    assert [item.store for item in copy.items()] == [str(here / "code")]
    assert [item.file for item in copy.items()] == [str(here / "test_h.py")]
    assert copy.selected() == run.selected()
    assert copy.root == here
    assert relocated_runs.relocated(copy.folder, here, tmp_path / "again") == copy.folder
