"""`python ci/job.py --all-here`: which rows run on this machine, what it prints, how it ends."""

import dataclasses
import importlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CI = ROOT / "ci"

#: Rows whose "command" is a line of Python: the row's `args`.
MATRIX = """
[runner.hosted]
labels = "l"
machine = "x86_64"
[runner.hosted-arm]
labels = "l"
machine = "aarch64"
[runner.cuda]
labels = "l"
enabled = "CUDA"
"""


def planted_row(name, code="pass", runner="hosted", python="3.12"):
    version = f'python = "{python}"' if python else ""
    return f"""
[[row]]
name = "{name}"
runner = "{runner}"
{version}
env = "suite"
args = ['''{textwrap.dedent(code)}''']
minutes = 1
holds = "all"
"""


@pytest.fixture
def here(monkeypatch, tmp_path):
    """The modules of ci/, with a checkout in tmp_path: an x86_64 machine with Python 3.12, whatever really runs."""
    monkeypatch.syspath_prepend(CI)
    names = ("bootstrap", "matrix", "interpreters", "all_here")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    all_here = importlib.import_module("all_here")
    monkeypatch.setattr(all_here.bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(all_here.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(all_here.Row, "command", lambda row: ["-c", *row.args])
    monkeypatch.setattr(all_here.interpreters, "find_python", {"3.12": sys.executable}.get)
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield all_here
    signal.signal(signal.SIGTERM, before)
    for name in names:
        sys.modules.pop(name, None)


def load(here, tmp_path, *rows):
    file = tmp_path / "matrix.toml"
    file.write_text(MATRIX + "".join(rows))
    return sys.modules["matrix"].load(file)


GREEN = "print('x'); print('==== 3 passed, 1 skipped, 12 subtests passed in 0.10s ====')"
RED = "print('== 1 failed, 2 passed in 0.10s =='); print('ERROR: exited with code 1'); raise SystemExit(3)"


def test_green_rows_are_a_line_each_with_the_counts_of_pytest(here, tmp_path, capsys):
    rows = load(here, tmp_path, planted_row("a", GREEN), planted_row("lint"))
    assert here.run(rows) == 0
    first, second, total = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"a +ok +\d+ s  3 passed, 1 skipped, 12 subtests passed in 0.10s", first)
    assert re.fullmatch(r"lint +ok +\d+ s", second)
    assert total.startswith("2 ok, 0 failed, 0 not run, in ")


def test_a_failing_row_fails_all_and_the_next_one_runs(here, tmp_path, capsys):
    assert here.run(load(here, tmp_path, planted_row("a", RED), planted_row("b", GREEN))) == 1
    first, second, total = capsys.readouterr().out.splitlines()
    assert first.startswith("a  ")
    assert " FAILED (3) " in first
    assert first.endswith("1 failed, 2 passed in 0.10s; output in .tox/job-a.log")
    assert " ok " in second
    assert total.startswith("1 ok, 1 failed, 0 not run")
    assert "exited with code 1" in (tmp_path / ".tox/job-a.log").read_text()


def test_rows_that_cannot_run_here_are_named_with_the_reason(here, tmp_path, capsys):
    rows = load(
        here,
        tmp_path,
        planted_row("a", GREEN),
        planted_row("cuda-2.13", RED, "cuda", python=""),
        planted_row("arm", RED, "hosted-arm"),
    )
    assert here.run(rows) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "cuda-2.13        not run: needs a machine with cuda; there, run python ci/job.py cuda-2.13" in lines
    assert "arm              not run: needs a machine with aarch64, and this one has x86_64" in lines
    assert lines[-1].startswith("1 ok, 0 failed, 2 not run")


def test_nothing_that_can_run_is_a_failure(here, tmp_path, capsys):
    assert here.run(load(here, tmp_path, planted_row("arm", GREEN, "hosted-arm"))) == 1
    assert "no row can run on this machine" in capsys.readouterr().err


def test_a_missing_python_is_replaced_by_the_nearest_and_named(here, tmp_path, monkeypatch, capsys):
    found = {"3.10": "/ten", "3.12": sys.executable, "3.13": "/thirteen"}
    monkeypatch.setattr(here.interpreters, "find_python", found.get)
    (row,) = load(here, tmp_path, planted_row("a", GREEN, python="3.11"))
    assert here.plan(row).python == "/ten"  # the older of two: wheels exist for it
    assert here.plan(dataclasses.replace(row, python="3.14")).python == "/thirteen"
    del found["3.10"]
    assert here.run([row]) == 0
    assert "in 0.10s  (with Python 3.12 instead of 3.11)" in capsys.readouterr().out
    found.clear()
    assert here.run([row]) == 1
    assert "a                FAILED: needs Python 3.11, and this machine has no Python" in capsys.readouterr().out


def test_a_named_python_runs_all_rows(here, tmp_path, capsys):
    assert here.run(load(here, tmp_path, planted_row("a", GREEN, python="3.14")), sys.executable) == 0
    assert f"(with {sys.executable})" in capsys.readouterr().out


def test_the_summary_of_tox_is_not_the_count(here, tmp_path):
    log = tmp_path / "log"
    log.write_text(
        "=== 1 failed, 2 passed in 3.00s ===\n  suite: FAIL code 1 (4.00 seconds)\n  evaluation failed :( (5.0 s)\n"
    )
    assert here.count_line(log) == "1 failed, 2 passed in 3.00s"
    log.write_text("no tests ran in 0.01s\n")
    assert here.count_line(log) == "no tests ran in 0.01s"
    log.write_text("pip could not install torch\n")
    assert not here.count_line(log)


def test_print_runs_nothing(here, tmp_path, capsys):
    rows = load(here, tmp_path, planted_row("a", RED), planted_row("arm", RED, "hosted-arm"))
    assert here.print_plan(rows) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["a", sys.executable, "-c"]
    assert second.startswith("arm              not run: needs")
    assert not (tmp_path / ".tox").exists()


def test_a_script_of_pyenv_for_a_version_that_is_off_is_no_python(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(CI)
    monkeypatch.delitem(sys.modules, "interpreters", raising=False)
    interpreters = importlib.import_module("interpreters")
    script = tmp_path / "python3.9"
    script.write_text("#!/bin/sh\necho 'pyenv: python3.9: command not found' >&2\nexit 127\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert interpreters.find_python("3.9") is None
    for folder in ("3.9.2", "3.9.18", "3.9.18t", "3.9-dev"):
        (tmp_path / "versions" / folder / "bin").mkdir(parents=True)
        python = tmp_path / "versions" / folder / "bin" / "python3.9"
        python.write_text("#!/bin/sh\necho 3.9\n")
        python.chmod(0o755)
    assert interpreters.find_python("3.9") == str(tmp_path / "versions" / "3.9.18" / "bin" / "python3.9")
    script.write_text("#!/bin/sh\necho 3.9\n")
    assert interpreters.find_python("3.9") == str(script)


#: Runs two rows. The first one starts a process of its own, writes both process ids, and waits.
INTERRUPTED = """
import os, sys
sys.path.insert(0, {ci!r})
import all_here, bootstrap, matrix
from pathlib import Path
bootstrap.ROOT = Path({root!r})
matrix.Row.command = lambda row: ["-c", *row.args]
all_here.interpreters.find_python = lambda version: sys.executable
all_here.platform.machine = lambda: "x86_64"
sys.exit(all_here.run(matrix.load(Path({root!r}, "matrix.toml"))))
"""
WAITING = """
import os, pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path("new").write_text(f"{os.getpid()} {child.pid}")
os.rename("new", "started")
child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "terminated"])
def test_ctrl_c_ends_the_running_row_and_names_the_rest(here, tmp_path, number):
    load(here, tmp_path, planted_row("a", WAITING), planted_row("b", GREEN), planted_row("arm", GREEN, "hosted-arm"))
    code = INTERRUPTED.format(ci=str(CI), root=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.splitlines()[:3] == [
        "a                interrupted",
        "b                not run: interrupted",
        "arm              not run: needs a machine with aarch64, and this one has x86_64",
    ]
    assert out.splitlines()[3].startswith("0 ok, 0 failed, 3 not run")
    for each in (tmp_path / "started").read_text().split():
        _wait_for_end(int(each))


def _wait_for_end(pid):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        status = Path(f"/proc/{pid}/status")
        if status.exists() and "State:\tZ" in status.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} still runs")
