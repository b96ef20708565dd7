"""From recorded lines to selected cases, in a small project."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections import defaultdict

import pytest
from suites import PreloadedSuite as Suite
from suites import environment, run_python

from conformance.cli.commands import coverage
from conformance.coverage import map_file, questions
from conformance.coverage.coverage_map import CoverageMap, MappedFile
from conformance.harness.selection import affected_cases
from conformance.sources import conditions, executed_lines
from conformance.sources.conditions import branch
from conformance.sources.torch_source import blob_id

CASES = """
from conformance import case, tensor

@case(x=tensor(20), grad="x")
def test_flip(x):
    return x.flip(0)

@case(x=tensor(20))
def test_double(x):
    return x * 2
"""
BROKEN = """
@case(x=tensor(20))
def test_broken(x):
    raise ValueError("no such mode")
"""
MODULE = (
    "def f(x):\n    if x:\n        return [\n            x,\n        ]\n    return g(x)\n\n\ndef g(x):\n    return x\n"
)


def command(suite: Suite, *words: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "conformance", "coverage", *words, folder=suite.root)


def test_recorded_lines(tmp_path, monkeypatch):
    """Of the wanted functions alone, and again in a second recording."""
    monkeypatch.setattr(executed_lines, "_FOLDER", [f"{tmp_path}/"])
    (tmp_path / "m.py").write_text(MODULE)
    names: dict = {}
    exec(compile(MODULE, str(tmp_path / "m.py"), "exec"), names)  # noqa: S102
    for _ in range(2):
        found: executed_lines.ExecutedLines = defaultdict(set)
        with executed_lines.recorded_lines(found, lambda path, code: path == "m.py" and code.co_name == "f"):
            names["f"](0)
        names["f"](1)
        assert found == {"m.py": {2, 6}}


BRANCHES = """def f(x):
    if x:
        y = 1
    elif (x is None
          and not any(a for a in ())):
        y = 2
    while x:
        x -= 1
        if x == 2: continue
    if y == 1:
        pass

def g(x):
    if x / 0:
        return 1

def h(x):
    for a in x:
        if (
            a
            or a == 1
        ):
            @str
            def k(): pass
    while True:
        break
"""


@pytest.mark.parametrize(
    ("function", "argument", "expected"),
    [
        ("f", 3, {(2, True), (7, False), (7, True), (10, True)}),
        ("f", None, {(2, False), (4, True), (7, False), (10, False)}),  # the last one leaves the function
        ("g", 1, set()),  # the condition raises
        ("h", [], set()),
        ("h", [0], {(19, False)}),  # to the next turn of the loop
        ("h", [0, 2], {(19, False), (19, True)}),
    ],
)
def test_recorded_branches(function, argument, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(executed_lines, "_FOLDER", [f"{tmp_path}/"])
    names: dict = {}
    exec(compile(BRANCHES, str(tmp_path / "m.py"), "exec"), names)  # noqa: S102
    found, taken = defaultdict(set), defaultdict(set)
    there = conditions.conditions(BRANCHES)
    branches = executed_lines.RecordedBranches(taken, lambda _path: there)
    with (
        contextlib.suppress(ZeroDivisionError),
        executed_lines.recorded_lines(found, lambda _path, code: bool(code.co_flags & 1), branches),
    ):
        names[function](argument)
    assert {(number // 2, bool(number % 2)) for number in taken["m.py"]} == expected
    of_lines = {number // 2 for number in conditions.branches_of(there, found["m.py"])}
    assert {line for line, _ in expected} <= of_lines


def test_a_report_names_conditions_that_always_or_never_hold(tmp_path):
    text = "def f(x):\n    if x:\n        y = 1\n    while y:\n        y = 0\n    return y\n"
    (tmp_path / "_inductor").mkdir()
    (tmp_path / "_inductor" / "a.py").write_text(text)
    made = CoverageMap("2.13.0")
    made.files["_inductor/a.py"] = MappedFile(blob_id(text.encode()))
    taken = [branch(2, holds=True), branch(4, holds=False)]
    made.add("one", "cuda_sm90", {"_inductor/a.py": [2, 3, 4, 6]}, {"_inductor/a.py": taken})
    path = tmp_path / "m.xz"
    map_file.write(path, made)
    [file] = questions.report(map_file.read(path), tmp_path, [])
    [function] = file.functions
    assert (function.branches, function.missed_branches) == (4, [branch(2, holds=False), branch(4, holds=True)])
    assert (file.reached, file.lines, file.taken, file.branches) == (4, 5, 2, 4)
    text = "\n".join(coverage._text(made, [file], functions=True))
    assert "1 of    5  f: lines 5; never true: 4; always true: 2" in text
    assert "80 %      4 /      5  torch/_inductor/a.py  50 % of branches" in text


@pytest.mark.long("it records a map of lines in workers, which traces each line of Inductor")
def test_from_a_map_to_selected_cases(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", CASES)
    wrong = suite.run("--affected-by", "torch/_inductor/lowering.py:rev", "--coverage-map", "none.xz")
    wrong.ends(pytest.ExitCode.USAGE_ERROR).has("none.xz cannot be read")

    made = command(suite, "make", "--target", "cuda_sm90", "-n", "2")
    assert made.returncode == 0, made.stderr
    file = tmp_path / ".conformance" / "coverage" / map_file.file_name(map_file_torch())
    assert f"{file}: 2 items of 2 cases, torch {map_file_torch()}" in made.stdout
    assert len(map_file.read(file).files) > 50

    found = command(suite, "cases", "torch/_inductor/lowering.py:rev")
    assert found.stdout.split() == ["scale/flip"], found.stderr
    assert command(suite, "cases", "torch/_inductor/lowering.py:no_such").returncode == 2

    check_a_map(suite, file)

    ran = suite.run("--collect-only", "-q", "--target", "cuda_sm90", "--affected-by", "torch/_inductor/lowering.py:rev")
    ran.ends(0).has("test_flip[cuda_sm90]", "1 deselected").has_not("test_double[")
    ran = suite.run("--collect-only", "--target", "cuda_sm80", "--affected-by", "torch/_inductor/config.py:1")
    ran.has(
        "--affected-by selects 2 of 2 cases", "made on cuda_sm90", "selects everything: torch/_inductor/config.py:1"
    )
    ran = suite.run("--affected-by", "nonsense")
    ran.ends(pytest.ExitCode.USAGE_ERROR).has("--affected-by nonsense: give torch/_inductor/lowering.py:1234")


DIFF = """\
diff --git a/torch/_inductor/lowering.py b/torch/_inductor/lowering.py
--- a/torch/_inductor/lowering.py
+++ b/torch/_inductor/lowering.py
@@ -1000,1 +1000,1 @@ def rev(x, dims):
-    old = 1
+    new = "caf\xe9"
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1"), ("-s",)])
def test_a_diff_comes_through_a_pipe(tmp_path, workers):
    """While pytest reads options, it captures stdin."""
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", CASES)
    words = ("-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "--target", "cuda_sm90", *workers)
    ran = run_python(*words, "--affected-by", "-", folder=tmp_path, input=DIFF)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"--affected-by selects [1-9]", ran.stdout), ran.stdout


def test_another_run_has_the_same_diff(tmp_path, pytestconfig, monkeypatch):
    """The run of a baseline cannot read stdin again."""
    monkeypatch.setattr(affected_cases, "option", lambda *_: "\ndiff")
    with affected_cases.edit_for_another_run(pytestconfig) as [word]:
        assert affected_cases.edit_text(word.partition("=")[2], tmp_path) == "\ndiff"
    monkeypatch.setattr(affected_cases, "option", lambda *_: "torch/_inductor/config.py:1")
    with affected_cases.edit_for_another_run(pytestconfig) as words:
        assert words == []


HANGING = """
import os
import time
from pathlib import Path
from conformance import case, tensor

def hang():
    Path("hangs").write_text(str(os.getpid()))
    time.sleep(600)

@case(x=tensor(20))
def test_flip(x):
    return x.flip(0)

@case(x=tensor(20), prepare=hang)
def test_hanging(x):
    return x * 2
"""


@pytest.mark.long("it records a map of lines in workers, which traces each line of Inductor")
def test_a_terminated_make_ends_its_processes_and_keeps_what_it_has(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", HANGING)
    words = [sys.executable, "-m", "conformance", "coverage", "make", "--target", "cuda_sm90", "-o", "made.xz"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment({}), stderr=subprocess.PIPE, text=True) as make:
        file, end = tmp_path / "hangs", time.monotonic() + 150
        while not (file.exists() and file.read_text()):
            assert make.poll() is None, make.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
        make.terminate()
        said = make.communicate(timeout=60)[1]
    assert make.returncode == 130
    assert "interrupted: 1 of 2 items are kept" in said
    assert map_file.read(tmp_path / "made.xz").cases == ["scale/flip"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def check_a_map(suite, file):
    """`coverage check` finds a case that is new, one that is gone, and one that executes other lines."""
    same = command(suite, "check", "--target", "cuda_sm90")
    assert same.returncode == 0, same.stderr
    assert same.stdout.splitlines() == ["2 items were recorded again, 0 differ"]
    suite.write("ops/test_scale.py", CASES.replace("test_double", "test_triple").replace("x.flip(0)", "x.relu()"))
    other = command(suite, "check", "--target", "cuda_sm90")
    assert other.returncode == 1, other.stderr
    assert "the map lacks items: scale/triple-cuda_sm90\n" in other.stdout
    assert "the map has items that no longer exist: scale/double-cuda_sm90\n" in other.stdout
    assert "these items execute other lines now: scale/flip-cuda_sm90\n" in other.stdout
    assert "    scale/flip-cuda_sm90: torch/_inductor/" in other.stdout
    assert f"delete it, and make it again: python -m conformance coverage make -o {file}\n" in other.stdout
    copy = suite.root / "copy.xz"
    copy.write_bytes(file.read_bytes())
    fitted = command(suite, "make", "--target", "cuda_sm90", "--missing", "-o", "copy.xz")
    assert "1 items no longer exist: the map drops them\n" in fitted.stdout, fitted.stderr
    assert sorted(map_file.read(copy).cases) == ["scale/flip", "scale/triple"]
    part = command(suite, "check", "--target", "cuda_sm90", "-k", "flip", "--sample", "0")
    assert part.stdout.splitlines() == ["0 items were recorded again, 0 differ"]
    suite.write("ops/test_scale.py", CASES + BROKEN)
    broken = command(suite, "make", "--target", "cuda_sm90", "--missing", "-o", "other.xz", "-k", "broken or double")
    assert broken.returncode == 1, broken.stderr
    assert "not in the map: 1 items raised" in broken.stderr
    assert "no such mode: scale/broken-cuda_sm90" in broken.stderr
    assert "other.xz: 1 items of 1 cases" in broken.stdout
    suite.write("ops/test_scale.py", CASES)


def map_file_torch() -> str:
    from conformance.devices.environment import torch_build

    return torch_build().version
