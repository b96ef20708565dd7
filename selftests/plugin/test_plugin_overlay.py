"""Targets, snapshots, known failures and subsets of a vendor, laid over those of a project."""

from __future__ import annotations

import json

import pytest
from suites import STALE_STATUS, further_table
from suites import PreloadedSuite as Suite

from conformance.expectations.known_failures import load

CASES = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]), require={"all": {"kernels": 1}})
def test_double(x):
    return x * 2

@case(x=tensor(20), require={"all": {"kernels": 2}})
def test_triple(x):
    return x * 3

@case(x=tensor(20), require={"all": {"kernels": 1}})
def test_refuses(x):
    raise ValueError("the operator ours::triple has no lowering")
"""
WRONG_TWICE = """
import torch
from conformance import case, tensor

@case(x=tensor(20), require={"all": {"kernels": 2}})
def test_wrong(x):
    return x + 1 if torch.compiler.is_compiling() else x
"""
MINE = ("--targets", "mine.toml", "--target", "cuda_mine")
QUICK = (*MINE, "--checks", "requirements")


@pytest.fixture
def suite(tmp_path) -> Suite:
    project = Suite(tmp_path)
    project.write("ops/test_scale.py", CASES)
    project.write("mine.toml", further_table())
    return project


@pytest.mark.long("it is one story of several runs that build on each other")
def test_layers_from_a_first_run_to_a_mended_bug(suite, tmp_path):
    """One vendor's way: write what fails, store what is generated, and see later what is mended."""
    written = ("--write-known-failures", "known", "-n", "2")
    ran = suite.run(*MINE, "--checks", "requirements,code", *written).ends(1)
    ran.has(f"2 entries for 2 failures written to {tmp_path}/known: scale.toml")
    ran.has("no known failure written for code of scale/double-f16-cuda_mine")
    ran.has_not("matched nothing")
    layers = (*MINE, "--checks", "requirements,code", "--known-failures", "known", "--store", "vendor")
    suite.accept(*layers, "-n", "2").ends(0).has("snapshots: 3 new, 0 changed, 0 unchanged")
    stored = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("expected_code/**/*.txt"))
    assert stored == [f"vendor/expected_code/scale/{name}.txt" for name in ("double-f16", "double-f32", "triple")]
    ran = suite.run(*layers).ends(0).has(f"code: 3 as stored in {tmp_path}/vendor", "4 items = 2 passed + 2 known")
    ran.has(f"failures excused: 2 by entries in {tmp_path}/known")
    ran.has(f"targets: 0 items for targets of conformance, 4 items for cuda_mine in {tmp_path}/mine.toml")
    suite.write("ops/test_scale.py", CASES.replace('{"kernels": 2}', '{"kernels": 1}'))
    ran = suite.run(*layers).ends(STALE_STATUS)
    ran.has(
        f"{tmp_path}/known/scale.toml, failure 2: scale/triple on cuda_mine passes requirements", "(to be explained)"
    )


def test_the_record_of_a_run_names_the_layers(suite, tmp_path):
    (tmp_path / "vendor").mkdir()
    suite.run(*QUICK, "--store", "vendor", "-k", "double-f32 or double and f32", "--save-run", "one").ends(0)
    run = tmp_path / ".conformance/runs/one"
    layers = {"targets": [f"{tmp_path}/mine.toml"], "store": f"{tmp_path}/vendor", "known_failures": []}
    assert json.loads((run / "run.json").read_text())["overlay"] == layers
    [item] = (run / "items/scale").glob("*.json")
    assert json.loads(item.read_text())["layers"] == {"target": f"{tmp_path}/mine.toml"}


def test_a_subset(suite):
    suite.write("mine.txt", "scale/double-f16  # all that we care for\nscale/tri*\n")
    listed = suite.run(*QUICK, "--subset", "mine.txt", "--collect-only", "-q").ends(0)
    assert listed.lines("ops/") == [
        "ops/test_scale.py::test_double[f16-cuda_mine]",
        "ops/test_scale.py::test_triple[cuda_mine]",
    ]
    quick = suite.run(*QUICK, "--subset", "mine.txt", "--quick", "--collect-only", "-q").ends(0)
    assert quick.lines("ops/") == listed.lines("ops/"), "--quick takes the first case that the file names"


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_wrong_line_of_a_subset_is_refused(suite, workers):
    suite.write("mine.txt", "scale/double-f16\nscale/duble-f32\n")
    ran = suite.run(*QUICK, "--subset", "mine.txt", "-k", "f16", *workers)
    ran.ends(1 if workers else 4).has("mine.txt:2: 'scale/duble-f32' names no case; nearest: scale/double-f32")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--targets", "taken.toml"), "taken.toml: cuda_sm90 is a target of this package already: give your target"),
        (("--write-known-failures", "mine.toml"), "--write-known-failures: {}/mine.toml is no folder; name a folder"),
    ],
)
def test_wrong_options_are_refused(suite, tmp_path, options, message):
    suite.write("taken.toml", further_table("cuda_sm90"))
    suite.run("--collect-only", *options).ends(4).has(message.format(tmp_path))


def test_wrong_numerics_are_written_beside_another_failed_check(suite, tmp_path):
    suite.write("ops/test_scale.py", WRONG_TWICE)
    checks = ("--target", "cpu_avx2", "--checks", "numerics,requirements")
    suite.run(*checks, "--write-known-failures", "known").ends(1).has("2 entries for 2 failures written")
    written = load(tmp_path / "known").failures
    assert {entry.check: bool(entry.excuses) for entry in written} == {"numerics": True, "requirements": False}
    suite.run(*checks, "--known-failures", "known").ends(0).has("1 item = 1 known failures")


def test_an_interrupted_run_writes_no_known_failures(suite, tmp_path):
    suite.write("ops/conftest.py", "def pytest_runtest_logfinish(nodeid):\n    raise KeyboardInterrupt\n")
    ran = suite.run(*QUICK, "--write-known-failures", "known")
    ran.has("the run was interrupted: no known failures were written; run the same command again")
    assert not (tmp_path / "known").exists()


def test_a_run_without_failures_makes_the_folder_that_the_next_command_names(suite, tmp_path):
    options = ("-k", "double", "--target", "cuda_sm90", "--checks", "requirements")
    suite.run(*options, "--write-known-failures", "known").ends(0)
    suite.run(*options, "--known-failures", "known").ends(0)
